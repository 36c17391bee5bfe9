"""Row-sparse optimisers, posteriors of heads, and heads as linear classifiers."""

# mypy: disable-error-code="union-attr, index, arg-type, call-arg, name-defined"

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: pip install 'bigcat[torch]'")

import reference.laplace  # noqa: E402
import reference.noise  # noqa: E402
from bigcat.torch import (  # noqa: E402
    CategoricalHead,
    RowSparseAdagrad,
    RowSparseAdam,
    from_linear,
    to_linear,
)
from tests.forms import slow  # noqa: E402

torch.set_num_threads(1)

ROWS, D = 20, 3
OURS = {
    "adam": lambda p, **o: RowSparseAdam(p, lr=0.1, betas=(0.8, 0.9), **o),
    "adagrad": lambda p, **o: RowSparseAdagrad(p, lr=0.1, **o),
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def gradients(index):
    """A sparse gradient with repeated rows, and the dense one."""
    index = torch.tensor(index)
    values = torch.randn(len(index), D, dtype=torch.float64)
    sparse = torch.sparse_coo_tensor(index[None], values, (ROWS, D))
    return sparse, sparse.to_dense()


@pytest.mark.parametrize("name", OURS)
def test_rows_move_as_if_they_were_alone(name):
    """As parameters of their own, which get a step whenever they have a gradient."""
    p = torch.nn.Parameter(torch.randn(ROWS, D, dtype=torch.float64))
    alone = [torch.nn.Parameter(row[None].clone()) for row in p.detach()]
    together = OURS[name]([p])
    others = [OURS[name]([row]) for row in alone]
    for index in ([3, 5, 3, 7], [5], [7, 7, 1], [0, 3, 5, 7, 1, 1]):
        p.grad, dense = gradients(index)
        together.step()
        for k in set(index):
            alone[k].grad = dense[k : k + 1]
            others[k].step()
    torch.testing.assert_close(p.detach(), torch.cat([row.detach() for row in alone]))


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("adam", lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.8, 0.9), weight_decay=0.3)),
        ("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.1)),
    ],
)
def test_dense_gradients_are_optimised_as_by_torch(name, theirs):
    """A matrix, a vector and a number."""
    parameters = [torch.nn.Parameter(torch.randn(s).double()) for s in ((4, 3), (5,), ())]
    twins = copy.deepcopy(parameters)
    options = {"weight_decay": 0.3} if name == "adam" else {}
    ours, other = OURS[name](parameters, **options), theirs(twins)
    for _ in range(4):
        for p, twin in zip(parameters, twins):
            p.grad = torch.randn_like(p)
            twin.grad = p.grad.clone()
        ours.step()
        other.step()
    for p, twin in zip(parameters, twins):
        torch.testing.assert_close(p, twin, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", OURS)
def test_weight_decay_is_made_up_for(name):
    """Rows that steps left out decay when they are touched again, or settled; the rate changes."""
    p = torch.nn.Parameter(torch.ones(ROWS, D, dtype=torch.float64))
    optimizer = OURS[name]([p], weight_decay=0.5)
    kept = 1.0
    for lr in (0.1, 0.2, 0.05, 0.1):
        optimizer.param_groups[0]["lr"] = lr
        kept *= 1.0 - 0.5 * lr
        index = torch.tensor([[2, 2]])
        p.grad = torch.sparse_coo_tensor(index, torch.zeros(2, D).double(), (ROWS, D))
        optimizer.step()
    assert torch.equal(p[3:].detach(), torch.ones(ROWS - 3, D).double())
    assert p[2, 0].item() == pytest.approx(kept, rel=1e-6)
    optimizer.settle()
    torch.testing.assert_close(p.detach(), torch.full_like(p, kept), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", OURS)
def test_state_goes_to_a_file_and_back(name):
    p = torch.nn.Parameter(torch.randn(ROWS, D, dtype=torch.float64))
    steps = [gradients(index)[0] for index in ([3, 5], [5, 5, 1], [3])]
    optimizer = OURS[name]([p], weight_decay=0.1)
    for grad in steps[:2]:
        p.grad = grad
        optimizer.step()
    twin = torch.nn.Parameter(p.detach().clone())
    again = OURS[name]([twin], weight_decay=0.1)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for q, o in ((p, optimizer), (twin, again)):
        q.grad = steps[2]
        o.step()
    torch.testing.assert_close(p, twin)


def test_wrong_options_of_optimisers_are_refused():
    p = [torch.nn.Parameter(torch.ones(3, 2))]
    with pytest.raises(ValueError, match=r"lr=-0.1 is negative"):
        RowSparseAdagrad(p, lr=-0.1)
    with pytest.raises(ValueError, match=r"betas=\(0.9, 1.0\) do not lie"):
        RowSparseAdam(p, betas=(0.9, 1.0))
    p[0].grad = torch.ones(3, 2)
    with pytest.raises(ValueError, match=r"lr \* weight_decay is 2, which leaves nothing"):
        RowSparseAdam(p, lr=1.0, weight_decay=2.0).step()


@pytest.mark.parametrize("method", ["complementary", "augment-reduce", "one-vs-each", "umax"])
def test_a_sampled_fit_learns(method):
    """Classes on a circle: a sampled fit gets near the entropy of the labels."""
    n_classes, n = 200, 2000
    angle = 2 * torch.pi * torch.arange(n_classes) / n_classes
    vectors = 8.0 * torch.stack([angle.cos(), angle.sin()], 1)
    hidden = torch.nn.functional.normalize(torch.randn(n, 2))
    log_p = (hidden @ vectors.T).log_softmax(1)
    target = torch.distributions.Categorical(logits=log_p).sample()
    options = {"n_rows": n} if method == "umax" else {}
    head = CategoricalHead(2, n_classes, method=method, n_negatives=40, **options)
    optimizer = RowSparseAdagrad(head.parameters(), lr=1.0)
    for _ in range(8):
        for rows in torch.randperm(n).split(100):
            optimizer.zero_grad()
            head(hidden[rows], target[rows], rows=rows if options else None).backward()
            optimizer.step()
    with torch.no_grad():
        found = head.log_prob(hidden, target).mean()
    best = log_p.gather(1, target[:, None]).mean()
    assert found > best - (0.45 if method == "one-vs-each" else 0.15)
    assert best > np.log(1 / n_classes) + 1.0


# Posterior


def test_the_covariance_of_a_head_is_that_of_the_twin():
    n, n_classes, columns = 30, 5, 3
    rng = np.random.default_rng(0)
    W, X = rng.normal(size=(n_classes, columns)), rng.normal(size=(n, columns))
    y = torch.tensor(rng.integers(0, n_classes, n))
    X[:, -1] = 1.0
    head = CategoricalHead(columns - 1, n_classes, method="exact", dtype=torch.float64)
    with torch.no_grad():
        head.weight.copy_(torch.tensor(W[:, :-1]))
        head.bias.copy_(torch.tensor(W[:, -1]))
    hidden = torch.tensor(X[:, :-1])
    y[0] = -100
    posterior = head.posterior([(hidden[:10], y[:10]), (hidden[10:], y[10:])], prior_precision=0.7)
    P = np.full((n_classes, columns), 0.7)
    H = reference.laplace.precision(reference.noise.GUMBEL, W, X[1:], np.ones(n - 1), P)
    expected = np.linalg.inv(reference.laplace.class_blocks(H, n_classes))
    np.testing.assert_allclose(posterior.covariance, expected, rtol=1e-9, atol=1e-12)


def fitted(n_classes, n_features, n_rows, scale=1.0):
    """A head at the mode for weights drawn from the prior, training rows, and 50 new rows."""
    truth = torch.randn(n_classes, n_features + 1)
    hidden = scale * torch.randn(n_rows + 50, n_features)
    log_p = (hidden @ truth[:, :-1].T + truth[:, -1]).log_softmax(1)
    target = torch.distributions.Categorical(logits=log_p).sample()
    train = hidden[:n_rows], target[:n_rows]
    head = CategoricalHead(n_features, n_classes, method="exact")
    optimizer = torch.optim.LBFGS(head.parameters(), max_iter=60)

    def closure():
        optimizer.zero_grad()
        loss = head(*train, reduction="sum")
        loss = loss + 0.5 * sum((p * p).sum() for p in head.parameters())
        loss.backward()
        return loss

    optimizer.step(closure)
    return head, train, (hidden[n_rows:], target[n_rows:], log_p[n_rows:].exp())


def test_intervals_hold_the_truth():
    """90 % intervals of all 40 classes."""
    head, train, (hidden, target, p) = fitted(40, 5, 1500)
    posterior = head.posterior([train])
    low, mean, high = posterior.interval(hidden, torch.arange(40).expand(50, 40))
    assert 0.85 < ((low < p) & (p < high)).float().mean() < 0.95
    torch.testing.assert_close(mean.sum(1), torch.ones(50), rtol=1e-4, atol=0)
    log_prob = posterior.interval(hidden, target).mean.log().mean()
    assert log_prob > p.gather(1, target[:, None]).log().mean() - 0.2


def test_intervals_of_probable_classes_hold_the_truth_where_rows_are_few():
    """Draws around the mode would put the mean probability 20 % too low."""
    head, train, (hidden, _, p) = fitted(500, 16, 3000, scale=0.375)
    classes = head.top_k(hidden, 20).classes
    p = p.gather(1, classes)
    low, mean, high = head.posterior([train]).interval(hidden, classes)
    assert 0.87 < ((low < p) & (p < high)).float().mean() < 0.93
    assert 0.93 < mean.sum() / p.sum() < 1.07


def test_posteriors_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="'gaussian' and bias=True; give bigcat"):
        CategoricalHead(2, 9, noise="gaussian").posterior([])
    head = CategoricalHead(2, 9, method="exact")
    with pytest.raises(ValueError, match="prior_precision=0 is not positive"):
        head.posterior([], prior_precision=0)
    with pytest.raises(ValueError, match="level=90 does not lie"):
        head.posterior([]).interval(torch.zeros(1, 2), torch.zeros(1).long(), level=90)
    with pytest.raises(ValueError, match="loader is a list_iterator, which can be read only once"):
        head.posterior(iter([]))


# Linear classifiers


@pytest.mark.parametrize("noise", ["gumbel", slow("gaussian")])
def test_linear_classifiers_are_heads_with_the_same_probabilities(noise):
    head = CategoricalHead(4, 6, noise=noise, method="exact")
    torch.nn.init.normal_(head.weight)
    torch.nn.init.normal_(head.bias)
    hidden = torch.randn(5, 4)
    model = to_linear(head, classes=np.array(list("abcdef")))
    expected = model.predict_log_proba(hidden.numpy())
    for one in (head, from_linear(model, method="exact")):
        for k in range(6):
            found = one.log_prob(hidden, torch.full((5,), k)).detach()
            np.testing.assert_allclose(found, expected[:, k], atol=2e-5)
    best = model.classes_[head.top_k(hidden, 1).classes[:, 0]]
    assert (best == model.predict(hidden.numpy())).all()
    with pytest.raises(ValueError, match="classes has 2 entries for 6 classes"):
        to_linear(head, classes=["a", "b"])
