"""Losses and gradients of `bigcat.torch` are those of the plain twins in `reference/`."""

# mypy: disable-error-code="union-attr, index, arg-type, call-arg, name-defined"

from __future__ import annotations

import numpy as np
import pytest

import reference.noise
from reference import bounds, double_sum, estimators
from reference.probabilities import log_prob_of

torch = pytest.importorskip("torch", reason="PyTorch is missing: pip install 'bigcat[torch]'")

from bigcat.torch import (  # noqa: E402
    CategoricalHead,
    Noise,
    Uniform,
    Weighted,
    by_count,
    log_uniform,
    losses,
)
from bigcat.torch.noise import NOISES  # noqa: E402
from bigcat.torch.rows import merged  # noqa: E402

torch.set_num_threads(1)

K, D, N = 30, 4, 6
#: A user's own noise, with derivatives by automatic differentiation: twice as wide as Gumbel's.
OWN = Noise(
    "wide",
    lambda t: -torch.exp(-0.5 * t),
    lambda t: -0.5 * t - torch.exp(-0.5 * t) - float(np.log(2.0)),
)
OWN_TWIN = reference.noise.Noise(
    "wide",
    log_cdf=lambda x: -np.exp(-0.5 * x),
    log_cdf_grad=lambda x: 0.5 * np.exp(-0.5 * x),
    log_pdf=lambda x: -0.5 * x - np.exp(-0.5 * x) - np.log(2.0),
    log_pdf_grad=lambda x: 0.5 * np.exp(-0.5 * x) - 0.5,
    quantile=lambda p: -2.0 * np.log(-np.log(p)),
)
ALL = {
    "gumbel": (NOISES["gumbel"], reference.noise.GUMBEL),
    "gaussian": (NOISES["gaussian"], reference.noise.GAUSSIAN),
    "logistic": (NOISES["logistic"], reference.noise.LOGISTIC),
    "own": (OWN, OWN_TWIN),
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def problem(spread: float = 1.0):
    rng = np.random.default_rng(0)
    W, b = spread * rng.normal(size=(K, D)), rng.normal(size=K)
    X, y = rng.normal(size=(N, D)), rng.integers(0, K, N)
    classes = np.arange(0, K, 3)
    log_weights = rng.normal(size=len(classes)) ** 2
    return W, b, X, y, classes, log_weights


def head_of(W, b, method: str, noise="gumbel", **options) -> CategoricalHead:
    head = CategoricalHead(
        D, K, noise=noise, method=method, n_negatives=5, dtype=torch.float64, **options
    )
    with torch.no_grad():
        head.weight.copy_(torch.tensor(W))
        head.bias.copy_(torch.tensor(b))
    return head


def check(head: CategoricalHead, twin, negatives=True, **options) -> None:
    """Compare values and gradients of a batch with those of a twin, row by row.

    ``twin(psi_y, psi, weights, weight_y)`` returns a `Bound` of the classes other than the label.
    """
    W, b, X, y, classes, log_weights = problem()
    hidden = torch.tensor(X, requires_grad=True)
    target = torch.tensor(y)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, N)
    if negatives:
        labels = torch.full((N,), np.log(K / 5))
        options["negatives"] = torch.tensor(classes), torch.tensor(log_weights), labels
    else:
        classes, log_weights = np.arange(K), np.zeros(K)
    found = head(hidden, target, reduction="none", **options)
    (found @ torch.tensor(weights)).backward()
    dW, dX = np.zeros((K, D)), np.zeros((N, D))
    db = np.zeros(K)
    for i in range(N):
        psi = W @ X[i] + b
        kept = classes != y[i]
        rest = classes[kept]
        value = twin(psi[y[i]], psi[rest], np.exp(log_weights[kept]), i)
        assert found[i].item() == pytest.approx(-value.value, rel=1e-6, abs=1e-6)
        slopes = np.zeros(K)
        np.add.at(slopes, rest, value.grads)
        slopes[y[i]] += value.grad_y
        dW -= weights[i] * np.outer(slopes, X[i])
        dX[i] -= weights[i] * slopes @ W
        db -= weights[i] * slopes
    np.testing.assert_allclose(head.weight.grad.to_dense(), dW, atol=1e-6, rtol=1e-6)
    np.testing.assert_allclose(head.bias.grad.to_dense(), db, atol=1e-6, rtol=1e-6)
    np.testing.assert_allclose(hidden.grad, dX, atol=1e-6, rtol=1e-6)


def full_rank(noise):
    def twin(psi_y, psi, weights, i):
        value, slopes = log_prob_of(noise, np.append(psi, psi_y), len(psi), np.append(weights, 1.0))
        return bounds.Bound(value, slopes[-1], slopes[:-1])

    return twin


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("method", ["exact", "complementary"])
def test_integrals_are_those_of_the_twin(method, name):
    noise, twin = ALL[name]
    head = head_of(*problem()[:2], method, noise, sparse_grad=method != "exact")
    check(head, full_rank(twin), negatives=method != "exact")


SOFTMAX = {
    "complementary": lambda psi_y, psi, weights, i: estimators.complementary(psi_y, psi, weights),
    "importance": lambda psi_y, psi, weights, i: estimators.importance(psi_y, psi, weights, K / 5),
    "nce": lambda psi_y, psi, weights, i: estimators.noise_contrastive(psi_y, psi, weights, K / 5),
    "one-vs-each": lambda psi_y, psi, weights, i: bounds.one_vs_each(psi_y, psi, weights),
}


@pytest.mark.parametrize("method", SOFTMAX)
@pytest.mark.parametrize("sparse_grad", [False, True])
def test_softmax_methods_are_those_of_the_twin(method, sparse_grad):
    check(head_of(*problem()[:2], method, sparse_grad=sparse_grad), SOFTMAX[method])


@pytest.mark.parametrize("name", ALL)
def test_augment_reduce_by_row_is_that_of_the_twin(name):
    noise, twin = ALL[name]
    head = head_of(*problem()[:2], "augment-reduce", noise, n_rows=10, local_rate=0.25)
    first, second = torch.linspace(0.5, 2.0, 10), torch.linspace(0.4, 0.9, 10)
    with torch.no_grad():
        head.local[:, 0] = first
        if name != "gumbel":
            head.local[:, 1] = second
    rows = torch.tensor([7, 2, 3, 4, 9, 0])
    if name == "gumbel":

        def value(psi_y, psi, weights, i):
            fresh = bounds.log_eta_estimate(psi_y, psi, weights)
            local = bounds.softmax_local_step(first[rows[i]].item(), fresh, 0.25)
            assert head.local[rows[i], 0].item() == pytest.approx(local)
            return bounds.softmax_augment_reduce(psi_y, psi, weights, local)
    else:
        rule = bounds.quadrature(noise.variational, 8)
        twin = reference.noise.Noise(**{**twin.__dict__, "family": noise.variational})

        def value(psi_y, psi, weights, i):
            mu, scale = head.local[rows[i]].tolist()
            gamma = bounds.inverse_softplus(scale)
            return bounds.augment_reduce(twin, psi_y, psi, weights, mu, gamma, rule)

    check(head, value, rows=rows)
    untouched = sorted({*range(10)} - {*rows.tolist()})
    assert head.local[untouched, 0].tolist() == first[untouched].tolist()


@pytest.mark.parametrize("name", ["gaussian", "logistic", "own"])
def test_best_local_parameters_are_those_of_the_twin(name):
    noise, twin = ALL[name]
    twin = reference.noise.Noise(**{**twin.__dict__, "family": noise.variational})
    W, b, X, y, _, _ = problem()
    head = head_of(W, b, "augment-reduce", noise)
    found = head.lower_bound(torch.tensor(X), torch.tensor(y))
    rule = bounds.quadrature(noise.variational, 8)
    for i in range(3):
        psi = W @ X[i] + b
        others, ones = np.delete(psi, y[i]), np.ones(K - 1)
        mu, gamma = bounds.optimal_local(twin, psi[y[i]], others, ones, rule)
        best = bounds.augment_reduce(twin, psi[y[i]], others, ones, mu, gamma, rule).value
        assert best - 2e-3 < found[i].item() <= best + 1e-9
    assert (found <= head.log_prob(torch.tensor(X), torch.tensor(y)) + 1e-3).all()


def test_umax_and_implicit_steps_are_those_of_the_twin():
    W, b, X, y, classes, log_weights = problem()
    for method in ("umax", "implicit"):
        for u in (0.1, 3.0):
            rate, kept = 0.3, classes != y[0]
            head = head_of(W, b, method, n_rows=3, local_rate=rate)
            with torch.no_grad():
                head.local[1] = u
            loss = head(
                torch.tensor(X[:1]),
                torch.tensor(y[:1]),
                reduction="sum",
                rows=torch.tensor([1]),
                negatives=(torch.tensor(classes), torch.tensor(log_weights)),
            )
            loss.backward()
            torch.optim.SGD(head.parameters(), lr=rate).step()
            step = (W, b, X[0], y[0], classes[kept], np.exp(log_weights[kept]), u, rate, True)
            if method == "umax":
                expected = double_sum.umax_step(*step, delta=1.0)
            else:
                expected = double_sum.implicit_step(*step)
            np.testing.assert_allclose(head.weight.detach(), expected[0], atol=1e-6)
            np.testing.assert_allclose(head.bias.detach(), expected[1], atol=1e-6)
            assert head.local[1].item() == pytest.approx(expected[2], abs=1e-6)
            assert head.local[[0, 2]].isnan().all()


def test_one_vs_each_and_the_softmax_bound_each_log_probability():
    W, b, X, y, _, _ = problem()
    X, y = torch.tensor(X), torch.tensor(y)
    exact = head_of(W, b, "exact").log_prob(X, y)
    assert (head_of(W, b, "one-vs-each").lower_bound(X, y) < exact).all()
    torch.testing.assert_close(head_of(W, b, "augment-reduce").lower_bound(X, y), exact)
    with pytest.raises(ValueError, match="is not a bound; take log_prob"):
        head_of(W, b, "importance").lower_bound(X, y)


# Over the draws


SAMPLERS = {
    "uniform": lambda per_row: Uniform(K, 7, per_row),
    "log-uniform": lambda per_row: log_uniform(K, 7, per_row=per_row),
    "counts": lambda per_row: by_count(torch.arange(K) ** 2, 7, per_row=per_row),
    "always in": lambda per_row: Weighted(torch.tensor([50.0] * 3 + [1.0] * (K - 3)), 7, per_row),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("per_row", [False, True])
def test_sums_over_draws_are_unbiased(name, per_row):
    """False alarms: one in 10,000 per class, by a z-test of 3.9 standard errors."""
    sampler = SAMPLERS[name](per_row)
    values = torch.rand(K).double()
    sums, counts = [], torch.zeros(K)
    for _ in range(200 if per_row else 2000):
        classes, log_weights, _ = sampler.draw(10, torch.device("cpu"))
        assert classes.shape == ((10, 7) if per_row else (7,))
        assert torch.equal(log_weights, sampler.log_weight_of(classes))
        sums.append((log_weights.double().exp() * values[classes]).sum(-1).reshape(-1))
        counts += torch.bincount(classes.reshape(-1), minlength=K) / (10 if per_row else 1)
    sums = torch.cat(sums)
    assert (counts > 0).all()
    assert abs(sums.mean() - values.sum()) < 3.9 * sums.std() / len(sums) ** 0.5


def test_the_most_probable_classes_are_always_drawn_once():
    sampler = SAMPLERS["always in"](False)
    for _ in range(20):
        classes, log_weights, _ = sampler.draw(1, torch.device("cpu"))
        assert classes[:3].tolist() == [0, 1, 2]
        assert log_weights[:3].abs().max() < 1e-6
        assert classes[3:].min() > 2


@pytest.mark.parametrize("method", ["one-vs-each", "augment-reduce"])
def test_bounds_are_unbiased_over_the_draws(method):
    """The same z-test for loss and gradients, with local parameters independent of the draws."""
    W, b, X, y, _, _ = problem(0.3)
    X, y, rows = torch.tensor(X), torch.tensor(y), torch.arange(N)
    options = {"n_rows": N, "local_rate": 1e-12} if method == "augment-reduce" else {}
    head = head_of(W, b, method, sampler=by_count(torch.arange(K), 6), **options)
    whole = (torch.arange(K), torch.zeros(K))
    if options:
        head.local.fill_(2.0)

    def loss_and_slopes(negatives=None):
        head.zero_grad()
        loss = head(X, y, rows=rows if options else None, negatives=negatives)
        loss.backward()
        return torch.cat([loss.detach()[None], head.bias.grad.to_dense()])

    expected = loss_and_slopes(whole)
    found = torch.stack([loss_and_slopes() for _ in range(1500)])
    error = (found.mean(0) - expected) / (found.std(0) / len(found) ** 0.5 + 1e-12)
    assert error.abs().max() < 4.5


def test_cross_fitted_local_parameters_keep_the_bound_and_the_direction():
    """Without a table the loss is above the exact one on average; complementary's is below."""
    W, b, X, y, _, _ = problem(0.3)
    X, y = torch.tensor(X), torch.tensor(y)
    exact = -head_of(W, b, "exact").log_prob(X, y).mean().item()
    means = {}
    for method in ("augment-reduce", "complementary", "importance"):
        head = head_of(W, b, method, sampler=Uniform(K, 8))
        with torch.no_grad():
            values = torch.stack([head(X, y) for _ in range(1500)])
        means[method] = (values.mean().item(), values.std().item() / 1500**0.5)
    mean, error = means["augment-reduce"]
    assert mean > exact + 3 * error
    for method in ("complementary", "importance"):
        mean, error = means[method]
        assert mean < exact - 3 * error


def test_draws_repeat_with_a_seed():
    head = head_of(*problem()[:2], "complementary")
    X, y = torch.tensor(problem()[2]), torch.tensor(problem()[3])
    torch.manual_seed(3)
    first = head(X, y)
    torch.manual_seed(3)
    assert torch.equal(head(X, y), first)
    own = [head(X, y, generator=torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(*own)
    assert not torch.equal(own[0], first)


def test_a_class_that_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="smallest probability is 0"):
        Weighted(torch.tensor([1.0, 0.0]), 1)
    with pytest.raises(ValueError, match="n_negatives=9 does not lie between 1 and n_classes=5"):
        Uniform(5, 9)


def test_merged_rows_add_up_in_arrays_of_the_same_shape():
    index = torch.tensor([4, 1, 4, 4, 0, 1])
    values = torch.arange(12.0).reshape(6, 2)
    rows, sums = merged(index, values)
    assert rows.shape == index.shape
    dense = torch.zeros(5, 2).index_copy_(0, rows, sums)
    assert torch.equal(dense, torch.zeros(5, 2).index_add_(0, index, values))


@pytest.mark.parametrize("name", ["gumbel", "gaussian", "logistic"])
def test_scores_far_apart_leave_finite_losses(name):
    psi = torch.tensor([[0.0, 3e3, -3e3], [3e3, -3e3, 0.0]], requires_grad=True)
    scores = losses.Scores(psi[:, 0], psi[:, 1:], torch.zeros(2, 2), torch.zeros(2))
    for value in (
        losses.complementary(NOISES[name], scores),
        losses.cross_fitted(NOISES[name], scores),
    ):
        (grad,) = torch.autograd.grad(value.sum(), psi, retain_graph=True)
        assert value.isfinite().all()
        assert grad.isfinite().all()
