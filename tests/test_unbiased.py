"""The double sum's solvers: the twin's steps, and what the paper proves about each.

F&I is Fagan and Iyengar (2018), Unbiased scalable softmax optimization.  Here everything is
maximised, and a rate is theirs times the number of rows.
"""

import dataclasses
import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse
from forms import slow
from scipy.special import wrightomega

import reference.bounds
from bigcat import LinearClassifier, noise
from bigcat.bounds import AugmentReduce, Raman
from bigcat.combinations import Parts
from bigcat.compile import kernel
from bigcat.linear import FullRank
from bigcat.numerics.random import new_state
from bigcat.rows import Problem, as_rows, class_major
from bigcat.samplers import Uniform
from bigcat.samplers._base import sample_many
from bigcat.solvers import REGISTRY, DivergedError, Implicit, UMax, Vanilla
from bigcat.solvers.implicit import proximal_step
from bigcat.training.order import Order
from bigcat.training.state import State
from bigcat.training.strategies import make_plan
from bigcat.verbs import StepSize, visit
from reference import double_sum
from tests.driving import drive

FORMS = {"proposed": AugmentReduce(), "raman": Raman()}
forms = pytest.mark.parametrize("form", FORMS)


# Drivers: the compiled loop, the same loop in plain NumPy, single rows


class Start(NamedTuple):
    """Rows, and parameters to start from."""

    X: np.ndarray
    y: np.ndarray
    W: np.ndarray
    b: np.ndarray
    u: np.ndarray
    row_weights: np.ndarray


def some_start(seed=0, n_rows=11, n_features=3, n_classes=6, spread=1.0, weighted=False):
    """Rows with zeros; if weighted, one of them without features and one that does not count."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.7)
    if weighted:
        X[2] = 0.0
    row_weights = rng.uniform(0.2, 3.0, n_rows) if weighted else np.ones(n_rows)
    row_weights[5] *= not weighted
    return Start(
        X,
        rng.integers(n_classes, size=n_rows),
        spread * rng.normal(size=(n_classes, n_features)),
        spread * rng.normal(size=n_classes),
        rng.uniform(0.0, 3.0, n_rows),
        row_weights,
    )


@dataclasses.dataclass(frozen=True)
class Run:
    """Settings of a run of the training loop."""

    solver: Any
    form: str = "proposed"
    n_negatives: int = 1
    batch_size: int = 1
    epochs: int = 2
    l2: float = 0.0
    fit_intercept: bool = True
    sparse: bool = False
    shuffle: bool = False

    @property
    def parts(self):
        sampler = Uniform(n_negatives=self.n_negatives)
        return Parts(noise.Gumbel(), FORMS[self.form], sampler, self.solver)

    def problem(self, start):
        X = scipy.sparse.csr_array(start.X) if self.sparse else start.X
        shape = (start.X.shape[1], len(start.b))
        options: dict[str, Any] = {"l2": self.l2, "fit_intercept": self.fit_intercept}
        return Problem(as_rows(X, start.X.dtype), start.y, start.row_weights, *shape, **options)

    def orders(self, start):
        """Return the order of the rows in each epoch, which this test does not check."""
        problem = self.problem(start)
        plan = make_plan(problem, self.parts, FullRank(), self.batch_size)
        order = Order(problem, plan, self.shuffle, np.random.RandomState(3))
        for _ in range(self.epochs):
            order.next_epoch()
            assert sorted(order.rows) == list(range(problem.n_rows))
            yield order.rows


class Epoch(NamedTuple):
    """State after an epoch."""

    W: np.ndarray
    b: np.ndarray
    u: np.ndarray
    value: float


def train(run, start):
    """The compiled loop."""
    problem, parts = run.problem(start), run.parts
    W, dtype = start.W, start.X.dtype
    local = np.zeros((len(start.u), parts.bound.n_local))
    local[:, 0] = start.u
    state = State(
        weights=np.array(W.T if run.sparse else W, dtype, order="C"),
        intercepts=start.b.astype(dtype),
        weights_state=np.zeros((W.shape[run.sparse], 0), dtype),
        intercepts_state=np.zeros(0, dtype),
        local=local,
        rng=new_state(np.random.RandomState(4)),
    )
    epochs = []

    def on_epoch(value):
        W = class_major(state.weights, problem.rows).copy()
        epochs.append(Epoch(W, state.intercepts.copy(), state.local[:, 0].copy(), value))

    sizes = {"batch_size": run.batch_size, "epochs": run.epochs, "shuffle": run.shuffle}
    drive(problem, parts, state, on_epoch, **sizes)
    return epochs


def replay(run, start):
    """The same in plain NumPy, with the same classes: one step of the twin a batch."""
    n_classes, total = len(start.b), start.row_weights.sum()
    width = min(run.n_negatives, n_classes - 1)
    problem = run.problem(start)
    sampler, rng = run.parts.sampler.lower(problem), new_state(np.random.RandomState(4))
    W, b, u = start.W, start.b, start.u.copy()
    weights = start.row_weights * len(start.y) / total
    ridge = run.l2 / total
    epochs = []
    for epoch, order in enumerate(run.orders(start)):
        rate, value = run.solver.learning_rate * run.solver.decay**epoch, 0.0
        for first in range(0, len(order), run.batch_size):
            rows = order[first : first + run.batch_size]
            draws = []
            for i in rows:
                classes, counts = np.empty((1, width), np.int64), np.empty((1, width + 1))
                sample_many.plain(sampler, rng, problem.rows, i, start.y[i], classes, counts)
                draws.append((classes[0], counts[0, :width]))
            W, b, new_u, values = TWINS[run.solver.name](
                run, W, b, start.X[rows], start.y[rows], draws, u[rows], rate, weights[rows], ridge
            )
            u[rows] = new_u
            value += start.row_weights[rows] @ values
        epochs.append(Epoch(W, b, u.copy(), value / total))
    return epochs


def values_of(form, W, b, X, y, draws, u):
    scores = [double_sum.row_scores(W, b, x, k, drawn) for x, k, (drawn, _) in zip(X, y, draws)]
    rows = zip(scores, draws, u)
    return np.array([double_sum.BOUND[form](*s, c, at).value for s, (_, c), at in rows])


def explicit_steps(run, W, b, X, y, draws, u, rate, weights, ridge):
    """A batch of vanilla or U-max steps: their mean in W and b, then ridge, then projection."""
    solver, form = run.solver, run.form
    u_before, new_u, sum_W, sum_b = u.copy(), np.empty(len(y)), np.zeros_like(W), np.zeros_like(b)
    for i, (drawn, counts) in enumerate(draws):
        row = (W, b, X[i], y[i], drawn, counts, u[i], rate * weights[i], run.fit_intercept)
        if solver.name == "vanilla":
            new_W, new_b, new_u[i] = double_sum.vanilla_step(*row, form)
        else:
            options = {"u_bound": solver.local_bound, "form": form}
            new_W, new_b, new_u[i] = double_sum.umax_step(*row, solver.threshold, **options)
            psi_y, psi = double_sum.row_scores(W, b, X[i], y[i], drawn)
            floor = double_sum.BEST_U[form](psi_y, psi, np.ones(psi.size))
            u_before[i] = floor if u[i] < floor - solver.threshold else u[i]
        sum_W += new_W - W
        sum_b += new_b - b
    values = values_of(form, W, b, X, y, draws, u_before)
    W = (W + sum_W / len(y)) / (1.0 + rate * ridge)
    W = W * min(1.0, getattr(solver, "weight_bound", np.inf) / np.linalg.norm(W))
    return W, b + sum_b / len(y), new_u, values


def implicit_steps(run, W, b, X, y, draws, u, rate, weights, ridge):
    shrink = 1.0 / (1.0 + rate * ridge)
    values = values_of("proposed", shrink * W, b, X, y, draws, u)
    if run.batch_size > 1:
        assert (weights == 1.0).all()  # the twin knows one rate
        drawn, counts = zip(*draws)
        batch = (W, b, X, y, drawn, counts, u, rate, run.fit_intercept, ridge)
        return *double_sum.implicit_batch_step(*batch), values
    if weights[0] == 0.0:
        return shrink * W, b, u, values
    # The rate of a row has its weight; the ridge's has not.
    drawn, counts = draws[0]
    row = (W, b, X[0], y[0], drawn, counts, u[0], rate * weights[0], run.fit_intercept)
    return *double_sum.implicit_step(*row, ridge / weights[0]), values


TWINS = {"vanilla": explicit_steps, "umax": explicit_steps, "implicit": implicit_steps}


def assert_same(found, expected, atol):
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        for name, a, b in zip(Epoch._fields, one, other):
            np.testing.assert_allclose(a, b, rtol=atol, atol=atol, err_msg=name)


def visit_row(solver, bound, local, rate, reach, label_score, others, counts, grads):
    rng, n = np.zeros(1, np.uint64), others.shape[0]
    step = StepSize(rate, reach)
    with np.errstate(all="ignore"):
        return visit(solver, bound, rng, local, 1.0, step, label_score, others, counts, n, 0, grads)


class Visited(NamedTuple):
    """Return the row's value, its new u and the gradients of one visit, the label's last."""

    value: float
    u: float
    grads: np.ndarray


def visit_once(solver, form, u, rate, reach, psi_y, psi, counts):
    local, grads = np.array([u, 0.0]), np.empty(psi.size + 1)
    counts = np.append(counts, 1.0)
    bound = FORMS[form].lower(noise.Gumbel())
    tag = solver.lower()
    value = visit_row(tag, bound, local, rate, reach, psi_y, psi.copy(), counts, grads)
    return Visited(value, local[0], grads)


@kernel
def proximal_steps(u_before, rate, reach, differences, counts, u, lengths, evaluations):
    for i in range(u.shape[0]):
        u[i], evaluations[i] = proximal_step(
            u_before[i],
            rate[i],
            reach[i],
            0.0,
            differences[i],
            counts[i],
            differences.shape[1],
            lengths[i],
        )


class Steps(NamedTuple):
    """Many one-row implicit problems, and their solutions."""

    u_before: np.ndarray
    rate: np.ndarray
    reach: np.ndarray
    differences: np.ndarray
    counts: np.ndarray
    u: np.ndarray
    lengths: np.ndarray  # s p_k
    evaluations: np.ndarray


def solve(u_before, rate, reach, differences, counts):
    shape = np.broadcast_shapes(np.shape(differences), np.shape(counts))
    given = [np.broadcast_to(a, shape[:1]).astype(float) for a in (u_before, rate, reach)]
    given += [np.array(np.broadcast_to(a, shape), float) for a in (differences, counts)]
    found = np.empty(shape[0]), np.empty(shape), np.empty(shape[0], np.int64)
    proximal_steps(*given, *found)
    return Steps(*[*given, *found])


def random_problems(seed, n, n_drawn=1):
    """Scores up to 1e6 apart, rates from 1e-3 to 1e3, |x|^2 from 1e-4 to 1e4 or 0, K up to 1e6."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-3.0, 6.0, (n, n_drawn))
    differences = rng.choice([-1.0, 1.0], (n, n_drawn)) * sizes
    u = rng.choice([0.0, 1.0], n) * rng.uniform(0.0, 20.0, n)
    differences[: n // 4, 0] = u[: n // 4] + rng.normal(size=n // 4)  # the bisection's best case
    n_others = np.maximum(np.rint(10.0 ** rng.uniform(0.0, 6.0, (n, 1))), n_drawn)
    rate, reach = 10.0 ** rng.uniform(-3.0, 3.0, n), 10.0 ** rng.uniform(-4.0, 4.0, n)
    reach[::20] = 0.0
    return solve(u, rate, reach, differences, n_others / n_drawn)


# The twin, step by step

EXPLICIT = [Vanilla(0.02, decay=0.8), UMax(0.3, decay=0.8, threshold=0.7, local_bound=2.5)]
IMPLICIT = Implicit(2.0, decay=0.8)
by_name: dict[str, Any] = {"ids": lambda value: getattr(value, "name", None)}


@pytest.mark.parametrize(
    ("solver", "sparse"),
    [
        *itertools.product([*EXPLICIT, IMPLICIT], [False]),
        slow(EXPLICIT[1], True),
        slow(IMPLICIT, True),
    ],
    **by_name,
)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("l2", [0.0, 2.0])
@pytest.mark.parametrize("n_negatives", [1, 3, 5])  # five are all
def test_steps_are_those_of_the_twin(solver, sparse, fit_intercept, l2, n_negatives):
    start = some_start(seed=n_negatives, weighted=True)
    run = Run(solver, n_negatives=n_negatives, l2=l2, fit_intercept=fit_intercept, sparse=sparse)
    # An implicit step is found by iteration.
    assert_same(train(run, start), replay(run, start), 1e-7 if solver is IMPLICIT else 1e-9)


@pytest.mark.parametrize("solver", EXPLICIT, **by_name)
def test_explicit_steps_of_batches_are_the_mean_of_the_rows(solver):
    start = some_start(weighted=True)
    run = Run(solver, n_negatives=2, batch_size=4, l2=2.0, shuffle=True, epochs=3)
    assert_same(train(run, start), replay(run, start), 1e-9)


@pytest.mark.parametrize("l2", [0.0, 2.0])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_umax_steps_in_ramans_form(l2, batch_size):
    start = some_start(weighted=True, spread=0.5)
    for threshold in (0.05, 0.7, 5.0):
        solver = UMax(0.3, decay=0.8, threshold=threshold, local_bound=2.5)
        run = Run(solver, "raman", n_negatives=2, batch_size=batch_size, l2=l2)
        found = train(run, start)
        assert_same(found, replay(run, start), 1e-9)
        assert 0 < np.sum(found[0].u == 2.5) < len(start.u)


@pytest.mark.parametrize("sparse", [False, slow(True)])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("l2", [0.0, 2.0])
@pytest.mark.parametrize("batch_size", [3, slow(5)])  # of 11 rows: the last batch is smaller
def test_implicit_steps_of_batches_are_joint(sparse, fit_intercept, l2, batch_size):
    start = some_start(seed=batch_size)
    options = {"l2": l2, "fit_intercept": fit_intercept, "sparse": sparse}
    run = Run(IMPLICIT, n_negatives=2, batch_size=batch_size, **options)
    assert_same(train(run, start), replay(run, start), 1e-7)


@pytest.mark.parametrize("rate", [0.1, 5.0, 50.0])
def test_an_implicit_batch_is_a_gradient_step_at_the_new_point(rate):
    """Without the twin, and so with a weight for each row: the conditions of the optimum.

    Rows share labels and classes, and far-out scores make their steps depend on each other.
    """
    start = some_start(seed=2, n_rows=8, n_classes=4, spread=5.0, weighted=True)
    run = Run(Implicit(rate), n_negatives=3, batch_size=8, l2=0.7, epochs=1)
    (new,) = train(run, start)
    accuracy = 1e-6 * max(rate, 1.0)  # a condition is off by rate times what a gradient is
    weights = start.row_weights * 8 / start.row_weights.sum()
    grads = np.zeros((8, 4))
    for i, y in enumerate(start.y):
        others = np.delete(np.arange(4), y)
        scores = double_sum.row_scores(new.W, new.b, start.X[i], y, others)
        bound = reference.bounds.softmax_augment_reduce(*scores, np.ones(3), new.u[i])
        grads[i, others], grads[i, y] = bound.grads, bound.grad_y
        grad = double_sum.local_grad(*scores, np.ones(3), new.u[i])
        assert new.u[i] == pytest.approx(start.u[i] + rate * weights[i] * grad, abs=accuracy)
    grads *= rate * weights[:, None] / 8
    shrink = 1.0 / (1.0 + rate * 0.7 / start.row_weights.sum())
    np.testing.assert_allclose(new.W, shrink * (start.W + grads.T @ start.X), atol=accuracy)
    np.testing.assert_allclose(new.b, start.b + grads.sum(axis=0), atol=accuracy)


# U-max


def random_row(rng, n_classes=8):
    """Scores on many scales, some classes of all and a u, too small more often than not."""
    psi, y = 10.0 ** rng.uniform(-1.0, 2.0) * rng.normal(size=n_classes), 0
    drawn = 1 + rng.permutation(n_classes - 1)[: rng.integers(1, n_classes)]
    return psi, y, drawn, (n_classes - 1) / drawn.size


@forms
@pytest.mark.parametrize("threshold", [0.1, 1.0, 3.0])
def test_umax_gradients_are_bounded(form, threshold):
    """F&I section 3.1: by (K - 1) e^delta with one class drawn, by its count e^delta in general."""
    rng, largest = np.random.default_rng(1), 0.0
    for _ in range(400):
        psi, y, drawn, count = random_row(rng)
        u = (psi[y] if form == "raman" else 0.0) + rng.uniform(-5.0, 20.0)
        counts = np.full(drawn.size, count)
        row = visit_once(
            UMax(0.1, threshold=threshold), form, u, 0.1, 0.0, psi[y], psi[drawn], counts
        )
        # The label's gradient is the sum of the others', in Raman's form with 1 instead of e^-u.
        largest = max(largest, np.abs(row.grads).max() / (count * np.exp(threshold)))
    assert 0.5 < largest <= 1.0 + 1e-12


@forms
@pytest.mark.parametrize("threshold", [0.1, 1.0, 3.0])
def test_raising_u_raises_the_full_bound(form, threshold):
    """Lemma 5: by at least delta^2 / 2.  A rate of zero leaves the raise alone."""
    rng, raised = np.random.default_rng(2), 0
    for _ in range(400):
        psi, y, drawn, count = random_row(rng)
        u = (psi[y] if form == "raman" else 0.0) + rng.uniform(0.0, 20.0)
        counts = np.full(drawn.size, count)
        row = visit_once(
            UMax(0.1, threshold=threshold), form, u, 0.0, 0.0, psi[y], psi[drawn], counts
        )
        floor = double_sum.BEST_U[form](psi[y], psi[drawn], np.ones(drawn.size))
        full = (psi[y], np.delete(psi, y), np.ones(psi.size - 1))
        if floor - threshold > u:
            raised += 1
            assert row.u == pytest.approx(floor, rel=1e-13)
            before, after = (double_sum.BOUND[form](*full, at).value for at in (u, row.u))
            assert after - before >= threshold**2 / 2
            at_new_u = double_sum.BOUND[form](psi[y], psi[drawn], counts, row.u)
            assert row.value == pytest.approx(at_new_u.value, rel=1e-12)
        else:
            assert row.u == u
    assert 50 < raised < 350


# Implicit steps: lengths


@pytest.mark.parametrize("n_drawn", [1, 2, 7])
def test_implicit_steps_are_never_longer_than_vanilla_steps(n_drawn):
    """Proposition 1, in u and W together; vanilla's may well be infinite."""
    rng = np.random.default_rng(n_drawn)
    ratios = []
    for _ in range(1500):
        rate, reach = 10.0 ** rng.uniform(-3.0, 3.0), 10.0 ** rng.uniform(-3.0, 3.0)
        psi = 10.0 ** rng.uniform(-2.0, 4.0) * rng.normal(size=n_drawn)
        psi_y, u = rng.normal(), rng.uniform(0.0, 10.0)
        row = (u, rate, reach, psi_y, psi, rng.uniform(1.0, 1e3, n_drawn))
        lengths = []
        for solver in (Implicit(1.0), Vanilla(1.0)):
            try:
                found = visit_once(solver, "proposed", *row)
            except OverflowError:  # where kernels have infinity
                lengths.append(np.inf)
                continue
            with np.errstate(over="ignore"):
                lengths.append(
                    np.hypot(found.u - u, rate * np.linalg.norm(found.grads) * np.sqrt(reach))
                )
        ratios.append(lengths[0] / lengths[1])
        assert np.isfinite(lengths[0])
    # The two agree where steps are short; then rounding decides.
    assert 0.999 < max(ratios) <= 1.0 + 1e-9
    assert min(ratios) == 0.0


# Implicit steps: how many evaluations they take


def bisected(steps):
    """One class: F&I equation 16 by bisection of the appendix's bracket, to rounding."""
    u_old, rate, s = steps.u_before, steps.rate, np.maximum(steps.reach, 1e-30)
    d, c = steps.differences[:, 0], steps.counts[:, 0]

    def a(u):  # equation 14: what the step takes from psi_k - psi_y
        return wrightomega(np.log(2.0 * s * rate * c) + d - u)

    def excess(u):  # equation 16, over -2
        return a(u) / (2.0 * s) - (u - u_old) + rate * np.expm1(-u)

    rises = excess(u_old) > 0.0
    with np.errstate(over="ignore"):
        above = np.logaddexp(0.0, np.log(c) + d)
        below = np.logaddexp(0.0, np.log(c) + d - 2.0 * s * rate)
    low, high = np.where(rises, u_old, below), np.where(rises, above, u_old)
    for _ in range(100):
        middle = 0.5 * (low + high)
        up = excess(middle) > 0.0
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    return middle, a(middle) / 2.0


ACCURACY = 1e-6


@pytest.fixture(scope="module")
def one_class():
    return random_problems(5, 200_000)


def test_implicit_steps_agree_with_bisection(one_class):
    """In u and in what the scores move by, some of which are millions."""
    part = Steps(*(a[::5] for a in one_class))
    u, lengths = bisected(part)
    error = np.maximum(np.abs(part.u - u), np.abs(part.lengths[:, 0] - lengths))
    worst = error.argmax()
    assert error[worst] <= ACCURACY, [np.ravel(a[worst]).tolist() for a in part]


@pytest.mark.parametrize("n_drawn", [2, 5, 20])
def test_implicit_steps_of_several_classes_meet_their_conditions(n_drawn):
    """Residuals of u' = u - rate (1 - exp(-u')) + P, and of each s p_k = omega(...)."""
    steps = random_problems(n_drawn, 20_000, n_drawn)
    moved = steps.reach * (steps.u - steps.u_before - steps.rate * np.expm1(-steps.u))
    np.testing.assert_allclose(moved, steps.lengths.sum(axis=1), rtol=1e-6, atol=1e-6)
    exponents = (
        np.log((np.maximum(steps.reach, 1e-30) * steps.rate)[:, None] * steps.counts)
        + steps.differences
        - (steps.u + moved)[:, None]
    )
    np.testing.assert_allclose(steps.lengths, wrightomega(exponents), rtol=1e-6, atol=1e-6)


def test_no_more_evaluations_than_proposition_4_allows(one_class):
    """Wherever K > 2.  For two classes the proposition's width can be next to zero, though u moves:
    between its derivation and its statement it loses a log 2 (log(2 (K - 1)) is what is proved).

    Ten is the most that was seen, twelve with a hundred classes; a bisection would need up to 45.
    """
    n_others = one_class.counts[:, 0]
    for more, where in [(1.0, n_others > 1.0), (2.0, n_others > 0.0)]:
        width = (
            np.abs(one_class.differences[:, 0] - one_class.u_before)
            + 2.0 * one_class.rate * one_class.reach
            + np.log(more * n_others)
        )
        allowed = np.log2(1.0 / ACCURACY) + np.log2(width[where])
        assert (one_class.evaluations[where] <= allowed).all()
        i = np.flatnonzero(where)[7]
        difference, u, rate = one_class.differences[i, 0], one_class.u_before[i], one_class.rate[i]
        row = (difference, u, rate, one_class.reach[i], more * n_others[i])
        assert double_sum.evaluations_allowed(ACCURACY, *row) == pytest.approx(allowed[7])
    assert one_class.evaluations.max() <= 12
    assert one_class.evaluations.mean() < 4.0
    for n_drawn in (2, 5, 20, 100):
        assert random_problems(n_drawn, 10_000, n_drawn).evaluations.max() <= 15


# Stability


def far_apart(where, dtype, sparse):
    """Rows, labels and weights whose scores differ by millions."""
    rng = np.random.default_rng(7)
    X, W = rng.normal(size=(60, 4)), rng.normal(size=(12, 4))
    if where == "rows":
        X *= 1e6
    else:
        W *= 1e6
    y = rng.integers(12, size=60)
    y[:12] = np.arange(12)
    scores = X @ W.T
    assert np.ptp(scores, axis=1).max() > 5e6
    X = X.astype(dtype)
    return scipy.sparse.csr_array(X) if sparse else X, y, W.astype(np.float32)


def warm(model, X, y, W):
    """A model that will start from W."""
    model.classes_, model.coef_ = np.unique(y), W.copy()
    model.intercept_ = np.zeros(len(W), np.float32)
    return model


@pytest.mark.filterwarnings("ignore:the fit is worse than no fit")
@pytest.mark.parametrize(
    ("dtype", "sparse"),
    [
        (np.float64, False),
        slow(np.float64, True),
        slow(np.float32, True),
    ],
)
def test_implicit_fits_stay_finite_whatever_the_scores_and_the_rate(dtype, sparse):
    for where, learning_rate in itertools.product(["rows", "weights"], [1e-3, 1.0, 1e3]):
        for batch_size in (1, 4):
            X, y, W = far_apart(where, dtype, sparse)
            model = LinearClassifier(
                method="implicit",
                max_epochs=4,
                random_state=0,
                progress=False,
                solver=Implicit(learning_rate=learning_rate, batch_size=batch_size),
                sampler=Uniform(3),
                early_stopping=False,
            )
            warm(model, X, y, W).fit(X, y, warm_start=True)
            assert np.isfinite(model.coef_).all()
            assert np.isfinite(model.intercept_).all()
            assert len(model.history_) == 4
            assert all(np.isfinite(row["bound"]) for row in model.history_)
            assert (model.coef_ != W).any()


def test_vanilla_stops_with_advice_where_it_overflows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 4)), rng.integers(20, size=100)
    model = LinearClassifier(
        method="vanilla", random_state=0, progress=False, solver=Vanilla(learning_rate=1e3)
    )
    with pytest.raises(DivergedError, match="method='implicit'") as caught:
        model.fit(X, y)
    assert "lower learning_rate" in str(caught.value)
    assert not hasattr(model, "coef_")
    # A fit that succeeded earlier is kept.
    model.set_params(solver=Vanilla(0.01), max_epochs=3, sampler=Uniform(5)).fit(X, y)
    coef, history = model.coef_.copy(), list(model.history_)
    with pytest.raises(DivergedError):
        model.set_params(solver__learning_rate=1e3).fit(X, y)
    np.testing.assert_array_equal(model.coef_, coef)
    assert list(model.history_) == history
    # The suggested method succeeds.
    model.set_params(method="implicit", solver="auto").fit(X, y)
    assert np.isfinite(model.coef_).all()


# Settings


def test_solvers_say_what_they_cannot_take():
    for name in ("threshold", "local_bound", "weight_bound"):
        for value in (0.0, -1.0, math.nan):
            with pytest.raises(ValueError, match=f"{name}={value!r} must be above 0"):
                UMax().with_options(**{name: value})
    with pytest.raises(ValueError, match="needs batch_size=1, not 8"):
        UMax(weight_bound=1.0, batch_size=8)
    supported = "supports noise='gumbel' with the bound 'augment-reduce'"
    for name in ("vanilla", "umax", "implicit"):
        assert REGISTRY[name]().batch_size == 1
        with pytest.raises(ValueError, match=supported):
            LinearClassifier("gaussian", solver=name).fit(np.eye(3), [0, 1, 2])
        with pytest.raises(ValueError, match=supported):
            LinearClassifier(method="one-vs-each", solver=name).fit(np.eye(3), [0, 1, 2])
    with pytest.raises(ValueError, match="not noise='gumbel' with the raman bound"):
        LinearClassifier(method="raman", solver="implicit").fit(np.eye(3), [0, 1, 2])
