"""`bigcat.torch.CategoricalHead` as a layer: arguments, devices, compilers, processes."""

# mypy: disable-error-code="union-attr, index, arg-type, call-arg, name-defined"

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: pip install 'bigcat[torch]'")

from torch.nn import functional  # noqa: E402

from bigcat.torch import CategoricalHead, InBatch, RowSparseAdagrad, RowSparseAdam, Uniform, exact  # noqa: E402

torch.set_num_threads(1)

K, D, N = 40, 5, 8
SAMPLED = ("complementary", "augment-reduce", "one-vs-each", "importance", "nce")
NEEDS_ROWS = ("umax", "implicit")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    torch.compiler.reset()  # each test may compile the layer anew


def rows(dtype=torch.float64):
    return torch.randn(N, D, dtype=dtype), torch.randint(K, (N,))


def head_of(method: str, **options) -> CategoricalHead:
    options = {"n_negatives": 6, "dtype": torch.float64} | options
    if method in NEEDS_ROWS:
        options["n_rows"] = N
    head = CategoricalHead(D, K, method=method, **options)
    torch.nn.init.normal_(head.weight)
    torch.nn.init.normal_(head.bias)
    return head


def call(head, hidden, target, **options):
    """A call with the draws of one seed."""
    if head.local is not None:
        options["rows"] = torch.arange(target.numel()).reshape(target.shape)
    torch.manual_seed(1)
    return head(hidden, target, **options)


# As a loss


def test_the_exact_loss_is_that_of_torch():
    hidden, target = rows()
    hidden = hidden.reshape(2, 4, D).requires_grad_()
    target = target.reshape(2, 4)
    target[1, 2] = -100
    class_weight = torch.rand(K, dtype=torch.float64)
    head = head_of("exact", class_weight=class_weight)
    scores = hidden @ head.weight.T + head.bias
    for reduction in ("mean", "sum", "none"):
        found = head(hidden, target, reduction=reduction)
        expected = functional.cross_entropy(
            scores.movedim(-1, 1), target, class_weight, reduction=reduction
        )
        assert torch.allclose(found, expected)
    parameters = (hidden, head.weight, head.bias)
    ours = torch.autograd.grad(found.sum(), parameters)
    assert all(map(torch.allclose, ours, torch.autograd.grad(expected.sum(), parameters)))


@pytest.mark.parametrize("chunked", ["torch's", "own"])
def test_blocks_of_classes_change_no_number(chunked, monkeypatch):
    hidden, target = rows()
    hidden.requires_grad_()
    head = head_of("exact")
    parameters = (hidden, head.weight, head.bias)
    expected = head(hidden, target, reduction="none")
    slopes = torch.autograd.grad(expected @ torch.arange(8.0).double(), parameters)
    best = head.top_k(hidden, 7)
    monkeypatch.setattr(exact, "BLOCK_SCORES", 7 * N)
    monkeypatch.setattr(exact, "MIN_BLOCK", 7)
    if chunked == "own":
        monkeypatch.delattr(functional, "linear_cross_entropy", raising=False)
    elif not hasattr(functional, "linear_cross_entropy"):
        pytest.skip("this version of torch has no chunked loss")
    found = head(hidden, target, reduction="none")
    assert torch.allclose(found, expected)
    in_blocks = torch.autograd.grad(found @ torch.arange(8.0).double(), parameters)
    assert all(map(torch.allclose, in_blocks, slopes))
    again = head.top_k(hidden, 7)
    assert torch.equal(again.classes, best.classes)
    assert torch.allclose(again.log_prob, best.log_prob)


@pytest.mark.parametrize("method", [*SAMPLED, *NEEDS_ROWS])
def test_reductions_weights_and_ignored_rows_of_sampled_losses(method):
    hidden, target = rows()
    whole = call(head := head_of(method), hidden, target, reduction="none")
    kept, weights = torch.arange(N) % 3 > 0, torch.rand(N).double()
    some = target.where(kept, -100)
    spoilt = hidden.where(kept[:, None], torch.nan)
    for reduction in ("none", "sum", "mean"):
        head.zero_grad()
        if head.local is not None:
            head.local.fill_(torch.nan)
        found = call(head, spoilt, some, reduction=reduction, row_weight=weights)
        expected = whole * weights * kept
        if reduction != "none":
            expected = expected.sum()
            expected = expected / (weights * kept).sum() if reduction == "mean" else expected
        assert torch.allclose(found, expected)
        found.sum().backward()
        assert head.weight.grad.to_dense().isfinite().all()
    assert call(head, hidden, torch.full_like(target, -100)).item() == 0.0


@pytest.mark.parametrize("method", ["exact", *SAMPLED, "umax"])
@pytest.mark.parametrize("per_row", [False, True])
def test_gradcheck(method, per_row):
    """At fixed local parameters, which are no part of the gradient."""
    hidden, target = rows()
    target[3] = -100
    options = {"n_rows": N, "local_rate": 1e-300} if method == "augment-reduce" else {}
    head = head_of(method, sparse_grad=False, sampler=Uniform(K, 6, per_row), **options)
    names = ("weight", "bias")
    place = {} if head.local is None else {"rows": torch.arange(N)}

    def loss(hidden, *values):
        torch.manual_seed(1)
        if place:
            head.local.fill_(20.0)
        return torch.func.functional_call(head, dict(zip(names, values)), (hidden, target), place)

    values = (hidden.requires_grad_(), head.weight, head.bias)
    assert torch.autograd.gradcheck(loss, values, fast_mode=True)


@pytest.mark.parametrize("noise", ["gaussian", "logistic"])
def test_gradcheck_of_other_noises(noise):
    hidden, target = rows()
    head = head_of("complementary", sparse_grad=False, noise=noise)

    def loss(hidden, weight):
        torch.manual_seed(1)
        return torch.func.functional_call(head, {"weight": weight}, (hidden, target))

    assert torch.autograd.gradcheck(loss, (hidden.requires_grad_(), head.weight), fast_mode=True)


def test_labels_of_the_batch_as_negatives():
    hidden, target = rows()
    target[0] = -100
    counts = torch.arange(1, K + 1)
    head = head_of("complementary", sampler=InBatch(counts))
    found = head(hidden, target, reduction="none")
    labels = target[1:]
    log_weights = -torch.log(counts[labels] / counts.sum() * (N - 2))
    expected = head(hidden[1:], labels, reduction="none", negatives=(labels, log_weights))
    assert torch.allclose(found[1:], expected)


def test_tied_weights_learn_from_both_uses():
    embedding = torch.nn.Embedding(K, D)
    head = CategoricalHead(D, K, weight=embedding.weight, method="complementary", n_negatives=6)
    assert head.weight is embedding.weight
    target = torch.randint(K, (N,))
    hidden = embedding(target)
    head(hidden, target).backward()
    both = embedding.weight.grad.clone().to_dense()
    embedding.weight.grad = None
    torch.manual_seed(0)
    torch.randint(K, (N,))
    RowSparseAdam([embedding.weight]).step()
    head(hidden.detach(), target).backward()
    assert not torch.equal(embedding.weight.grad.to_dense(), both)


def test_gradients_accumulate():
    hidden, target = rows()
    head = head_of("complementary")
    for half in (slice(0, 4), slice(4, 8)):
        call(head, hidden[half], target[half], reduction="sum").backward()
    found = head.weight.grad.to_dense()
    head.zero_grad()
    call(head, hidden, target, reduction="sum").backward()
    assert torch.allclose(found, head.weight.grad.to_dense())


# Numbers and devices


def test_a_step_leaves_gradients_and_updates_with_the_visited_classes_alone():
    head = CategoricalHead(D, 100_000, n_negatives=16)
    hidden, target = torch.randn(N, D), torch.randint(100_000, (N,))
    before = head.weight.detach().clone()
    optimizer = RowSparseAdam(head.parameters(), lr=0.1, weight_decay=0.1)
    head(hidden, target).backward()
    assert head.weight.grad.layout == torch.sparse_coo
    assert head.weight.grad._nnz() == head.bias.grad._nnz() == N + 16
    optimizer.step()
    moved = (head.weight != before).any(1)
    assert moved[target].all()
    assert moved.sum() <= N + 16


@pytest.mark.parametrize("method", ["exact", *SAMPLED, *NEEDS_ROWS])
def test_a_step_needs_no_value_on_the_host(method):
    """Tensors on the meta device have shapes only, so reading a value fails."""
    options = {"n_rows": N} if method in (*NEEDS_ROWS, "augment-reduce") else {}
    head = CategoricalHead(D, K, method=method, n_negatives=6, device="meta", **options)
    hidden = torch.randn(N, D, device="meta", requires_grad=True)
    target = torch.zeros(N, dtype=torch.long, device="meta")
    place = {"rows": target} if options else {}
    loss = head(hidden, target, **place)
    loss.backward()
    assert hidden.grad.shape == hidden.shape
    for make in (RowSparseAdam, RowSparseAdagrad):
        make(head.parameters()).step()


def test_bfloat16_with_300_000_classes_is_close_to_double_precision():
    head = CategoricalHead(16, 300_000, method="exact", dtype=torch.bfloat16)
    torch.nn.init.normal_(head.weight)
    hidden, target = torch.randn(4, 16).bfloat16(), torch.randint(300_000, (4,))
    scores = hidden.double() @ head.weight.detach().double().T
    expected = scores.log_softmax(1).gather(1, target[:, None])[:, 0]
    assert torch.allclose(head.log_prob(hidden, target).double(), expected, rtol=1e-5, atol=1e-4)
    sampled = CategoricalHead(16, 300_000, weight=head.weight, bias=False)
    assert sampled.selection.method == "complementary"
    loss = sampled(hidden, target)
    assert loss.dtype == torch.float32
    loss.backward()
    assert head.weight.grad.dtype == torch.bfloat16
    RowSparseAdam([head.weight]).step()
    assert head.weight.isfinite().all()


def test_autocast_adds_up_in_single_precision():
    hidden, target = rows(torch.float32)
    for method in ("exact", "complementary"):
        head = head_of(method, dtype=torch.float32)
        expected = call(head, hidden.bfloat16().float(), target)
        with torch.autocast("cpu", torch.bfloat16):
            found = call(head, hidden.bfloat16(), target)
        assert found.dtype == torch.float32
        assert torch.allclose(found, expected, rtol=1e-5)


# Compilers and processes


def test_compiled_losses_are_those_of_eager_mode():
    """Without a graph break; some rows are ignored."""
    hidden, target = rows(torch.float32)
    target[[1, 5]] = -100
    for method in ("exact", "complementary", "augment-reduce"):
        head = head_of(method, dtype=torch.float32, sparse_grad=False)
        expected = call(head, hidden, target)
        expected.backward()
        slopes, head.weight.grad = head.weight.grad, None
        compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
        found = call(compiled, hidden, target)
        assert torch.allclose(found, expected)
        found.backward()
        assert torch.allclose(head.weight.grad, slopes, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", *SAMPLED, *NEEDS_ROWS])
@pytest.mark.parametrize("sparse_grad", [False, True])
def test_inductor_compiles_every_method(method, sparse_grad):
    """Row-sparse gradients cost one break, between the rows and what is made of them."""
    hidden, target = rows(torch.float32)
    target[[1, 5]] = -100
    head = head_of(method, dtype=torch.float32, sparse_grad=sparse_grad)
    negatives = torch.arange(6), torch.linspace(0.0, 2.0, 6), torch.linspace(0.0, 1.0, N)
    expected = call(copy.deepcopy(head), hidden, target, negatives=negatives)
    compiled = torch.compile(head, fullgraph=not sparse_grad)
    found = call(compiled, hidden, target, negatives=negatives)
    assert torch.allclose(found, expected, rtol=1e-5)
    found.backward()
    assert head.weight.grad.is_sparse == (sparse_grad and method != "exact")


def test_top_k_is_exported():
    class Best(torch.nn.Module):
        def __init__(self, head):
            super().__init__()
            self.head = head

        def forward(self, hidden):
            return self.head.top_k(hidden, 3)

    head = head_of("complementary")
    hidden, _ = rows()
    program = torch.export.export(Best(head), (hidden,))
    found = program.module()(hidden)
    scores = (hidden @ head.weight.T + head.bias).log_softmax(1).topk(3)
    assert torch.equal(found[1], scores.indices)
    assert torch.allclose(found[0], scores.values)


WORKER = """
import sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from bigcat.torch import CategoricalHead
torch.set_num_threads(1)
rank, file = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
torch.manual_seed(0)
embedding = torch.nn.Embedding(40, 5)
head = CategoricalHead(5, 40, weight=embedding.weight, method="complementary", n_negatives=6,
                       sparse_grad=False)
class Both(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = embedding, head
    def forward(self, x, y):
        return self.head(self.embedding(x), y, negatives=(torch.arange(6), torch.ones(6)))
x, y = torch.randint(40, (8,)), torch.randint(40, (8,))
half = slice(4 * rank, 4 * rank + 4)
model = DistributedDataParallel(Both())
model(x[half], y[half]).backward()
found = embedding.weight.grad.to_dense().clone()
embedding.weight.grad = None
Both()(x, y).backward()
assert torch.allclose(found, embedding.weight.grad.to_dense(), atol=1e-6), rank
dist.destroy_process_group()
"""


def test_two_processes_with_tied_weights_add_up_gradients(tmp_path):
    words = [sys.executable, "-c", WORKER]
    started = [
        subprocess.Popen([*words, str(rank), str(tmp_path / "store")], stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    for process in started:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()


def test_state_is_that_of_a_linear_layer(tmp_path):
    from safetensors.torch import load_file, save_file

    linear = torch.nn.Linear(D, K)
    head = CategoricalHead(D, K, method="complementary", n_negatives=6)
    head.load_state_dict(linear.state_dict())
    hidden, target = rows(torch.float32)
    expected = functional.cross_entropy(linear(hidden), target, reduction="none")
    assert torch.allclose(-head.log_prob(hidden, target), expected)
    save_file(head.state_dict(), tmp_path / "head.safetensors")
    again = CategoricalHead(D, K, method="one-vs-each", n_negatives=6)
    again.load_state_dict(load_file(tmp_path / "head.safetensors"))
    assert torch.equal(again.weight, head.weight)
    by_row = CategoricalHead(D, K, method="augment-reduce", n_rows=3)
    assert by_row.state_dict()["local"].shape == (3, 1)


@pytest.mark.parametrize("method", ["complementary", "augment-reduce"])
def test_copies_and_pickles_are_the_same_layer(method):
    hidden, target = rows()
    head = head_of(method)
    expected = call(head, hidden, target)
    for copied in (copy.deepcopy(head), pickle.loads(pickle.dumps(head))):
        assert copied.noise is head.noise
        assert torch.equal(call(copied, hidden, target), expected)


def test_other_noises_have_probabilities_and_best_classes():
    hidden, _ = rows()
    head = head_of("complementary", noise="gaussian")
    everything = torch.stack(
        [head.log_prob(hidden, torch.full((N,), k)) for k in range(K)], 1
    ).detach()
    assert torch.allclose(everything.exp().sum(1), torch.ones(N).double(), atol=1e-7)
    best = head.top_k(hidden, 4)
    assert torch.equal(best.classes, everything.topk(4).indices)
    assert torch.allclose(best.log_prob, everything.topk(4).values)


# Choices and errors


def test_auto_says_what_it_took_and_why():
    few = CategoricalHead(D, 100)
    assert few.selection == ("exact", "100 classes are at most 2,048, so all of them are cheap")
    many = CategoricalHead(D, 10_000)
    assert many.selection.method == "complementary"
    assert "more than 2,048, so 512 are drawn" in many.selection.reason
    assert not few.sparse_grad
    assert many.sparse_grad


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "best"}, "method='best' is not known"),
        ({"method": "nce", "noise": "gaussian"}, "'nce' holds for noise='gumbel', not for 'gauss"),
        ({"noise": "cauchy"}, "noise='cauchy' is not known"),
        ({"method": "umax"}, "keeps a number per training row; give n_rows"),
        ({"weight": torch.nn.Parameter(torch.zeros(3, 2))}, r"shape \(3, 2\), not \(40, 5\)"),
        ({"method": "nce", "class_counts": torch.ones(3)}, "class_counts has 3 entries, not 40"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        CategoricalHead(D, K, **options)


def test_wrong_calls_are_refused():
    hidden, target = rows()
    head = head_of("augment-reduce", n_rows=N)
    with pytest.raises(ValueError, match=r"target \(7,\); they should be"):
        head(hidden, target[:7])
    with pytest.raises(ValueError, match="reduction='max' is not"):
        head(hidden, target, reduction="max")
    with pytest.raises(ValueError, match="give rows="):
        head(hidden, target)
    with pytest.raises(
        ValueError, match=r"'importance' needs; .*\(classes, log_weights, label_log"
    ):
        head_of("importance")(hidden, target, negatives=(torch.arange(3), torch.zeros(3)))
    with pytest.raises(ValueError, match="k=41 does not lie between 1 and n_classes=40"):
        head.top_k(hidden, 41)


def test_sharded_tensors_are_refused():
    """A stand-in by name: a real one needs a process group."""

    class DTensor(torch.Tensor):
        pass

    head = head_of("exact")
    sharded = torch.randn(N, D).as_subclass(DTensor)
    for use in (
        lambda: head(sharded, torch.zeros(N, dtype=torch.long)),
        lambda: head.top_k(sharded, 1),
    ):
        with pytest.raises(TypeError, match=r"hidden is a DTensor.*call hidden\.full_tensor"):
            use()
