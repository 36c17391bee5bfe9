"""The registry of methods: what it says is so, and what does not fit is refused with advice."""

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

import bigcat
from bigcat import LinearClassifier, Method, bounds, noise, samplers, solvers
from bigcat.auto import Parameters
from bigcat.bounds import AugmentReduce, Exact, OneVsEach, Raman
from bigcat.combinations import register, resolve
from bigcat.noise import REGISTRY as NOISES
from bigcat.noise import Gaussian, Gumbel
from bigcat.samplers import Everything, Uniform
from bigcat.solvers import LBFGS, SGD, AdaGrad, Implicit

NAMES = [row["name"] for row in bigcat.methods()]


def row_of(name):
    return next(row for row in bigcat.methods() if row["name"] == name)


@pytest.mark.parametrize("name", list(NAMES))
def test_defaults_fit_together(name, student_t):
    row = row_of(name)
    for which in [*row["noises"][: len(NOISES)], student_t]:
        if which == "custom" or (which is student_t and "custom" not in row["noises"]):
            continue
        parts = resolve(name, noise.resolve(which))
        assert parts.bound.name == row["bound"]
        assert parts.solver.name == row["solver"]
        assert parts.sampler.name == row["sampler"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_promised_is_a_fact_of_the_parts(name):
    """Every pair of solver and sampler is either refused or keeps the promise of no bias, and
    what is refused is so for a reason that the parts declare."""
    bound = bounds.REGISTRY[row_of(name)["bound"]]
    for solver, sampler in itertools.product(solvers.REGISTRY, samplers.REGISTRY):
        kind = solvers.REGISTRY[solver]
        sampled = sampler != "everything"
        fits = kind.stochastic or not sampled
        fits = fits and (bound.can_sample or not sampled)
        fits = fits and (kind.bounds is None or bound.name in kind.bounds)
        try:
            parts = resolve(name, Gumbel(), solver=solver, sampler=sampler)
        except ValueError:
            assert not fits, (solver, sampler)
        else:
            assert fits, (solver, sampler)
            assert (parts.solver.name, parts.sampler.name) == (solver, sampler)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"method": "softmax"},
            "method='softmax' is not known; choose one of 'augment-reduce', 'one-vs-each', "
            "'implicit', 'umax', 'vanilla', 'raman', 'nce', 'importance', 'complementary', "
            "'bouchard', 'exact' (bigcat.methods() describes them)",
        ),
        ({"method": ["exact"]}, "method=['exact'] is not known; choose one of"),
        ({"solver": "newton"}, "solver='newton' is not known; choose 'auto' or one of 'adaptive'"),
        ({"sampler": "popular"}, "sampler='popular' is not known"),
        (
            {"method": "one-vs-each", "noise": Gaussian()},
            "the one-vs-each bound supports noise 'gumbel', not 'gaussian'; set "
            "method='augment-reduce' or 'exact', which support every noise",
        ),
        (
            {"method": "exact", "solver": "sgd", "sampler": "uniform"},
            "the exact bound is biased over a sample of classes; set sampler='everything', or take "
            "one of 'one-vs-each', 'bouchard', 'augment-reduce'",
        ),
        (
            {"solver": "lbfgs", "sampler": "uniform"},
            "solver='lbfgs' visits all classes and ignores sampler='uniform'; set sampler='auto'",
        ),
        (
            {
                "method": AugmentReduce(expectation="sample"),
                "solver": "lbfgs",
                "noise": Gaussian(),
            },
            "set expectation='quadrature' or one of the solvers 'adaptive', 'adagrad', 'sgd'",
        ),
        (
            {"method": "one-vs-each", "solver": "implicit"},
            "solver='implicit' supports noise='gumbel' with the bound 'augment-reduce', not "
            "noise='gumbel' with the one-vs-each bound; set solver='adagrad', 'adaptive' or 'sgd'",
        ),
        (
            {"method": "nce", "solver": "vanilla"},
            "bound 'augment-reduce' or 'raman', not noise='gumbel' with the nce objective",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_with_advice(arguments, text):
    arguments = {"method": "augment-reduce", "noise": Gumbel(), **arguments}
    with pytest.raises(ValueError) as caught:
        resolve(**arguments)
    assert text in str(caught.value)


def test_parts_override_a_methods_own():
    parts = resolve("exact", Gumbel(), solver="sgd", sampler="everything")
    assert parts.solver == SGD()
    assert parts.sampler == Everything()
    parts = resolve("augment-reduce", Gumbel(), sampler=Uniform(7))
    assert parts.sampler == Uniform(n_negatives=7)
    parts = resolve("one-vs-each", Gumbel(), solver=AdaGrad(0.3), sampler=Uniform(2))
    assert (parts.solver, parts.sampler) == (AdaGrad(0.3), Uniform(2))


def test_a_bound_stands_for_the_method_that_is_named_after_it():
    bound = AugmentReduce(expectation="sample", n_nodes=5)
    parts = resolve(bound, Gumbel(), sampler=Uniform(3))
    assert parts == replace(resolve("augment-reduce", Gumbel(), sampler=Uniform(3)), bound=bound)
    assert resolve(Exact(spacing=0.5), Gaussian()).solver == LBFGS()
    own = resolve(OwnBound(), Gumbel())
    assert (own.bound, own.sampler, own.solver) == (OwnBound(), Uniform(32), AdaGrad())


def test_the_double_sums_solvers_move_what_they_can():
    for solver in ("vanilla", "umax"):
        assert resolve("raman", Gumbel(), solver=solver).bound == Raman()
    assert resolve("implicit", Gumbel()).solver == Implicit()
    # Each bound can be moved by the other solvers too.
    assert resolve("umax", Gumbel(), solver="lbfgs").sampler == Everything()
    assert resolve("raman", Gumbel(), solver="sgd").bound == Raman()
    assert resolve("vanilla", Gaussian(), solver="adagrad").bound == AugmentReduce()


@dataclass(frozen=True, repr=False)
class OwnBound(OneVsEach):
    name: ClassVar[str] = "own"


def parts_of(model):
    parameters = Parameters.of(model.get_params(deep=False))
    assert parameters.method is not None
    return parameters.config(parameters.method).parts


def test_a_method_of_ones_own(monkeypatch):
    from bigcat import combinations

    monkeypatch.setattr(combinations, "_METHODS", dict(combinations._METHODS))
    mine = register(Method("near-eta", AugmentReduce(band=2.0), solver="sgd"))
    assert bigcat.methods()[-1]["name"] == "near-eta"
    model = LinearClassifier(method="near-eta")
    assert parts_of(model).bound.band == 2.0
    assert parts_of(model).solver == SGD()
    with pytest.raises(ValueError, match="a method named 'near-eta' exists already; choose anoth"):
        register(mine)
    own = Method("own", OneVsEach())
    assert parts_of(LinearClassifier(method=own)).bound == OneVsEach()
