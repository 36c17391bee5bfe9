"""The prior's scale that maximises the ELBO of the papers' methods, against a grid of scales."""

import numpy as np
import pytest

from bigcat import load_model, save_model
from bigcat.bayes import GaussianPrior, LearnedScale
from tests.bayesian import augment_reduce, binary, csr, four_classes

FACTORS = (0.5, 0.8, 1.25, 2.0)


def learnt_scales(model):
    prior = model.posterior_.prior
    assert prior is not None
    assert np.ptp(prior.precision[:, :-1]) == 0.0
    return prior.precision[0, [0, -1]] ** -0.5


def fixed(make, options, scales):
    prior = GaussianPrior(scale=scales[0], intercept_scale=scales[1])
    return make(prior=prior, **options)


@pytest.mark.parametrize("options", [{}, {"link": "logit"}, {"covariance": "diagonal"}], ids=str)
@pytest.mark.parametrize("sparse", [False, True])
def test_no_other_scale_has_a_better_elbo(options, sparse):
    X, y = four_classes(120)
    X = csr(X) if sparse else X
    options = {"likelihood": "conditioned", **options}
    model = binary(prior="learned", **options).fit(X, y)
    scales = learnt_scales(model)
    same = fixed(binary, options, scales).fit(X, y)
    assert same.elbo_ == pytest.approx(model.elbo_, rel=1e-6)
    for factor in FACTORS:
        for changed in (scales * [factor, 1.0], scales * [1.0, factor]):
            assert fixed(binary, options, changed).fit(X, y).elbo_ < model.elbo_
    q = model.posterior_
    squares = (np.square(q.mean) + np.square(q.scale)).mean(axis=0)
    assert scales[0] ** 2 == pytest.approx(squares[:-1].mean(), rel=1e-2)
    assert scales[1] ** 2 == pytest.approx(squares[-1], rel=1e-2)


def test_the_elbo_never_falls():
    X, y = four_classes(120)
    elbos = binary(prior="learned", likelihood="conditioned").fit(X, y).history_["elbo"]
    assert (np.diff(elbos) > -1e-9 * np.abs(elbos[0])).all()


def test_augment_reduce_learns_it_too():
    X, y = four_classes(200)
    options = {"tol": 0.0, "max_epochs": 150}
    model = augment_reduce(prior="learned", **options).fit(X, y)
    scales = learnt_scales(model)
    q = model.posterior_
    squares = (np.square(q.mean) + np.square(q.scale)).mean(axis=0)
    np.testing.assert_allclose(scales**2, [squares[:-1].mean(), squares[-1]], rtol=0.1)

    def elbo(scales):
        history = fixed(augment_reduce, options, scales).fit(X, y).history_
        return history["elbo"][-30:].mean()

    # An epoch's ELBO has a standard deviation of about 0.01 nats per row.
    best = model.history_["elbo"][-30:].mean()
    assert best == pytest.approx(elbo(scales), abs=0.01)
    for factor in (0.3, 3.0):
        assert elbo(scales * factor) < best


def test_columns_without_an_intercept_and_files(tmp_path):
    X, y = four_classes(80)
    for make in (binary, augment_reduce):
        model = make(prior=LearnedScale(), fit_intercept=False).fit(X, y)
        assert model.posterior_.prior is not None
        assert model.posterior_.prior.precision.shape == (1, 3)
        loaded = load_model(save_model(model, tmp_path / "m"))
        found, expected = loaded.posterior_.prior, model.posterior_.prior
        np.testing.assert_array_equal(found.precision, expected.precision)
        assert loaded.prior == LearnedScale()


def test_what_is_refused():
    X, y = four_classes(60)
    with pytest.raises(ValueError, match=r"learns several scales.*prior='learned'"):
        augment_reduce(prior=LearnedScale("feature")).fit(X, y)
    with pytest.raises(ValueError, match=r"not per='both'; set prior=LearnedScale\('feature'\)"):
        binary(prior=LearnedScale("both")).fit(X, y)
    with pytest.raises(ValueError, match="prior='horseshoe' is for method='laplace'"):
        binary(prior="horseshoe").fit(X, y)
    assert not hasattr(binary(), "partial_fit")
