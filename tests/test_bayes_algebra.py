"""Products, frames, covariances and steps of the posteriors, against dense matrices."""

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy import stats
from scipy.linalg import block_diag
from scipy.special import log_softmax, softmax

from bigcat.bayes import (
    GaussianPrior,
    HierarchicalPrior,
    HorseshoePrior,
    _chains,
    _expected_softmax,
    _frames,
    _low_rank_frame,
    _mode,
    _own_rows,
    _scale_chain,
    _uncentred,
    _updates,
    averaging,
    coverage,
)
from bigcat.bayes import covariance as covariances
from bigcat.bayes._chains import Chains
from bigcat.bayes._design import Design
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._mixing import mean_error
from bigcat.bayes.covariance import ClassFull, Drawn
from bigcat.bayes.covariance import full as full_matrices
from bigcat.bayes.prior_chains import PriorChain
from bigcat.noise import Gumbel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3)) * (RNG.random((12, 3)) < 0.7)
Y = np.array([0, 1, 2, 3, 0, 1, 0, 2, 0, 3, 1, 0])
WEIGHTS = RNG.integers(1, 4, 12).astype(float)
V = RNG.normal(size=(4, 2))
R = RNG.normal(size=(12, 2))

kinds = pytest.mark.parametrize("sparse", [False, True])


def design_of(sparse, intercept=True, weights=WEIGHTS):
    return Design(scipy.sparse.csr_array(X) if sparse else X, intercept, weights)


def dense(intercept=True):
    return np.column_stack([X, np.ones(12)]) if intercept else X


# Products of rows


@kinds
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_products_of_rows(sparse, intercept, weighted):
    s = WEIGHTS if weighted else np.ones(12)
    design, A = design_of(sparse, intercept, s if weighted else None), dense(intercept)
    M = A.shape[1]
    v = V[:M]
    assert (design.n, design.n_columns, design.total_weight) == (12, M, s.sum())
    np.testing.assert_allclose(design.product(v), A @ v)
    np.testing.assert_allclose(design.transposed(R), A.T @ R)
    np.testing.assert_allclose(design.gram(), A.T @ (s[:, None] * A))
    np.testing.assert_allclose(design.gram(WEIGHTS), A.T @ (WEIGHTS[:, None] * A))
    np.testing.assert_allclose(design.squared_sums(), s @ A**2)
    np.testing.assert_allclose(design.sums(), s @ A)
    np.testing.assert_allclose(design.squares_product(v), A**2 @ v)
    np.testing.assert_allclose(design.squares_transposed(R), (A**2).T @ R)
    S = np.cov(RNG.normal(size=(M, 9)))
    np.testing.assert_allclose(design.quadratic(S), np.einsum("im,ml,il->i", A, S, A))
    np.testing.assert_allclose(design.dense(slice(2, 5)), A[2:5])


@kinds
def test_rows_that_all_count_alike(sparse):
    """Each as one and a half."""
    design, A = design_of(sparse, weights=np.full(12, 1.5)), dense()
    assert design.total_weight == 18.0
    np.testing.assert_allclose(design.gram(), 1.5 * A.T @ A)
    np.testing.assert_allclose(design.squared_sums(), 1.5 * (A**2).sum(axis=0))
    np.testing.assert_allclose(design.sums(), 1.5 * A.sum(axis=0))


@kinds
@pytest.mark.parametrize("dtype", [None, np.float64, np.float32])
def test_curvature_products(sparse, dtype, monkeypatch):
    monkeypatch.setattr("bigcat.bayes._design.CACHED", 10)  # a few rows at a time
    A = dense()
    h = np.ones((12, 2)) if dtype is None else RNG.uniform(0.1, 1.0, (12, 2)).astype(dtype)
    found = design_of(sparse).curvature_product(None if dtype is None else h, V)
    expected = A.T @ (h * (A @ V))
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)


def test_chunks_of_rows():
    design = design_of(False)
    assert [(s.start, s.stop) for s in design.chunks(4, 20)] == [(0, 5), (5, 10), (10, 12)]
    assert [(s.start, s.stop) for s in design.chunks(100, 20)][:2] == [(0, 1), (1, 2)]
    assert list(design.chunks(0, 20)) == [slice(0, 12)]


# Closed-form pieces of binary regressions


def precisions_of(prior, sparse, full, n_classes=4):
    design = design_of(sparse)
    return _updates.Precisions(design, prior.bind(n_classes, 4, True), full), design.gram()


MATRIX = np.array([[2.0, 0.3, 0, 0], [0.3, 1.0, 0, 0], [0, 0, 3.0, 0.2], [0, 0, 0.2, 0.5]])
PRIORS = [
    GaussianPrior(scale=0.7, intercept_scale=5.0),
    GaussianPrior(precision=MATRIX),
    HierarchicalPrior("class", intercept_scale=5.0),
    HierarchicalPrior("feature"),
    HorseshoePrior(),
]


def prior_matrix(prior, k, n_classes=4):
    state = prior.bind(n_classes, 4, True)
    found = state.precision(np.arange(n_classes))
    return found if state.is_matrix else np.diag(found[:, k % found.shape[1]])


@kinds
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_covariances_of_the_probit(prior, sparse):
    """(P_k + X'X)^-1, or the inverse of its diagonal."""
    for full in (True, False):
        precisions, gram = precisions_of(prior, sparse, full)
        found = precisions.probit_covariance(4)
        for k in range(4):
            whole = prior_matrix(prior, k) + gram
            if not full:
                whole = np.diag(np.diag(whole))
            np.testing.assert_allclose(found.matrix_of(k), np.linalg.inv(whole), atol=1e-10)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("full", [True, False])
def test_preconditioners_are_inverses_at_even_curvature(prior, full):
    """With h the same for all rows; the diagonal only has a diagonal.

    With a scale per class the intercept is eliminated as if h were 1, which is nearly as good.
    """
    within = 1e-3 if full and prior.sharing == "class" else 1e-8
    precisions, gram = precisions_of(prior, False, full)
    classes = np.array([1, 3])
    level = np.array([0.3, 0.8])
    apply = precisions.preconditioner(classes, WEIGHTS[:, None] * level)
    found = np.stack([apply(np.tile(e[:, None], (1, 2))) for e in np.eye(4)], axis=1)
    for b, k in enumerate(classes):
        whole = prior_matrix(prior, k) + level[b] * gram
        if not full or prior.sharing == "coordinate":
            whole = np.diag(np.diag(whole))
        np.testing.assert_allclose(found[:, :, b], np.linalg.inv(whole), rtol=0, atol=within)


def test_diagonals_of_sparse_rows_are_exact():
    curvature = RNG.uniform(0.1, 1.0, (12, 2))
    precisions, _ = precisions_of(PRIORS[0], True, False)
    np.testing.assert_allclose(precisions._curved_diagonal(curvature), (dense() ** 2).T @ curvature)
    level = curvature.sum(axis=0) / WEIGHTS.sum()
    np.testing.assert_allclose(precisions._level(curvature), level)
    rough, gram = precisions_of(PRIORS[0], False, False)
    np.testing.assert_allclose(
        rough._curved_diagonal(curvature), np.diag(gram)[:, None] * level, rtol=1e-12
    )


@pytest.mark.parametrize("up_to", [256, 2])
@kinds
def test_gram_matrices_of_classes(up_to, sparse, monkeypatch):
    monkeypatch.setattr(_updates, "PAIRS_UP_TO", up_to)
    found = _updates.weighted_grams(design_of(sparse), R**2, np.float64)
    for b in range(2):
        np.testing.assert_allclose(found[b], dense().T @ (R[:, [b]] ** 2 * dense()))


@pytest.mark.parametrize("prior", [PRIORS[0], PRIORS[1], PRIORS[4]], ids=str)
def test_covariances_of_classes(prior):
    grams = np.stack([np.eye(4) * (k + 1.0) + 0.1 for k in range(2)])
    state = prior.bind(4, 4, True)
    matrices, logs = _updates.class_covariances(grams, state, np.array([0, 1]))
    for k in range(2):
        whole = prior_matrix(prior, k) + grams[k]
        np.testing.assert_allclose(matrices[k], np.linalg.inv(whole), atol=1e-12)
        assert logs[k] == pytest.approx(-np.linalg.slogdet(whole)[1])
    assert grams[0, 0, 0] == 1.1  # as it was


def test_covariances_times_vectors():
    right = RNG.normal(size=(4, 2))
    classes = np.array([1, 2])
    for prior in (PRIORS[0], PRIORS[2], PRIORS[4]):
        covariance = precisions_of(prior, False, True)[0].probit_covariance(4)
        found = _updates.apply_covariance(covariance, right, classes)
        for b, k in enumerate(classes):
            np.testing.assert_allclose(found[:, b], covariance.matrix_of(k) @ right[:, b])


def test_precision_of_pairs(monkeypatch):
    design = design_of(False)
    n_products = 12 * 4 * 4 * 5 // 2
    monkeypatch.setattr(_updates, "ROUGH_ABOVE", n_products)
    assert _updates.pairs_dtype(design, 4) is np.float64
    monkeypatch.setattr(_updates, "ROUGH_ABOVE", n_products - 1)
    assert _updates.pairs_dtype(design, 4) is np.float32
    assert _updates.pairs_dtype(design_of(True), 4) is np.float32
    for far in (1e6, -1e6):
        wide = X.copy()
        wide[0, 0] = far
        assert _updates.pairs_dtype(Design(wide, True, WEIGHTS), 4) is np.float64
    monkeypatch.setattr(_updates, "PAIRS_UP_TO", 3)
    assert _updates.pairs_dtype(design, 4) is np.float64


@pytest.mark.parametrize("classes", [[0, 1, 2, 3], [1, 3], [0, 2], [3]], ids=str)
def test_sums_by_label(classes):
    classes = np.array(classes)
    eta = RNG.normal(size=(12, len(classes)))
    signs = (Y[:, None] == classes) - 0.5
    found = _updates.signed_sums(eta, Y, WEIGHTS, classes)
    np.testing.assert_allclose(found, WEIGHTS @ (signs * eta))
    values = np.where(Y[:, None] == classes, RNG.normal(size=len(classes)), 0.3 + 0.1 * classes)
    design = design_of(True)
    expected = dense().T @ values  # the rows' weights are in the values
    design.weighted = False
    found = _updates.two_valued_transposed(design, values, Y, classes)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_scores_where_only_intercepts_differ_from_zero():
    mean = np.zeros((4, 2))
    mean[-1] = [0.3, -0.4]
    found = _updates.constant_scores(design_of(True), mean)
    np.testing.assert_allclose(found, np.tile([0.3, -0.4], (12, 1)))  # type: ignore
    assert _updates.constant_scores(design_of(False), mean) is None
    mean[0, 0] = 1e-9
    assert _updates.constant_scores(design_of(True), mean) is None
    none = _updates.constant_scores(design_of(True, intercept=False), np.zeros((3, 2)))
    np.testing.assert_allclose(none, np.zeros((12, 2)))  # type: ignore


# Frames


def frames_of():
    root = RNG.normal(size=(8, 8))
    joint = root @ root.T + np.eye(8)
    blocks = np.stack([joint[:4, :4], joint[4:, 4:]])
    mode = RNG.normal(size=(2, 4))
    diagonal = np.stack([np.diag(block) for block in blocks])
    whole = np.zeros((8, 8))
    whole[:4, :4], whole[4:, 4:] = blocks
    return [
        (_frames.JointFrame(mode, joint), joint),
        (_frames.ClassFrame(mode, blocks), whole),
        (_frames.DiagonalFrame(mode, diagonal), np.diag(diagonal.ravel())),
    ]


OWN = [slice(0, 4), slice(4, 8)]  # of each of two classes


@pytest.mark.parametrize("which", [0, 1, 2])
def test_frames_turn_the_precision_into_ones(which):
    frame, precision = frames_of()[which]
    u, g = RNG.normal(size=(5, 2, 4)), RNG.normal(size=(5, 2, 4))
    away = (frame.to_weights(u) - frame.mode).reshape(5, 8)
    energies = np.einsum("ci,ij,cj->c", away, precision, away)
    np.testing.assert_allclose(energies, (u**2).sum(axis=(1, 2)))
    np.testing.assert_allclose(frame.of_weights(frame.to_weights(u)), u, atol=1e-10)
    # Gradients with respect to u, by the chain rule.
    slopes = (g * (frame.to_weights(u) - frame.mode)).sum(axis=(1, 2))
    np.testing.assert_allclose((frame.pulled(g) * u).sum(axis=(1, 2)), slopes)
    assert frame.log_determinant() == pytest.approx(np.linalg.slogdet(precision)[1])
    np.testing.assert_allclose(frame.diagonal.ravel(), np.diag(precision))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_covariances_of_columns_as_they_are(which):
    """b = b_c - w . means; a diagonal is not turned, and then columns are not centred."""
    frame, precision = frames_of()[which]
    means = np.array([0.4, -1.0, 2.0])
    turn = np.eye(4)
    turn[-1, :-1] = -means
    found = _uncentred.uncentred_covariance(frame, None if which == 2 else means)
    both = np.kron(np.eye(2), np.eye(4) if which == 2 else turn)
    inverse = both @ np.linalg.inv(precision) @ both.T
    for k in range(2):
        own = slice(4 * k, 4 * k + 4)
        np.testing.assert_allclose(found.matrix_of(k), inverse[own, own], atol=1e-10)
        log_determinant = found.log_determinants(slice(k, k + 1))
        np.testing.assert_allclose(log_determinant, np.linalg.slogdet(inverse[own, own])[1])
    stack = RNG.normal(size=(3, 2, 4))
    moved = _uncentred.uncentred(stack, means)
    np.testing.assert_allclose(moved, stack @ turn.T)
    assert _uncentred.uncentred(stack, None) is stack


@pytest.mark.parametrize("which", [1, 2])
def test_frames_of_blocks_of_classes_are_joined(which):
    frame, precision = frames_of()[which]
    kind = type(frame)
    if which == 1:
        parts = [(frame.mode[k : k + 1], precision[None, o, o]) for k, o in enumerate(OWN)]
    else:
        parts = [(frame.mode[k : k + 1], frame.diagonal[k : k + 1]) for k in range(2)]
    found = kind.joined([kind(*part) for part in parts])
    u = RNG.normal(size=(3, 2, 4))
    np.testing.assert_allclose(found.to_weights(u), frame.to_weights(u))
    np.testing.assert_allclose(found.of_weights(u), frame.of_weights(u))
    np.testing.assert_allclose(found.pulled(u), frame.pulled(u))
    assert found.log_determinant() == pytest.approx(frame.log_determinant())
    np.testing.assert_allclose(kind.joined([frame]).to_weights(u), frame.to_weights(u))


@kinds
def test_blocks_of_rows_add_up_to_the_joint_precision(monkeypatch, sparse):
    """sum_n s_n (diag(p_n) - p_n p_n') (x) x_n x_n', and the prior's."""
    weights, prior = RNG.normal(size=(4, 4)), RNG.uniform(0.5, 2.0, (4, 4))
    p = softmax(dense() @ weights.T, axis=1)
    expected = np.diag(prior.ravel())
    for x, of_row, s in zip(dense(), p, WEIGHTS):
        expected += s * np.kron(np.diag(of_row) - np.outer(of_row, of_row), np.outer(x, x))
    likelihood = likelihood_of(sparse)
    few = likelihood.design.chunks(16, 80)
    monkeypatch.setattr(likelihood.design, "chunks", lambda width: few)  # five rows at a time
    found = _frames.joint_precision(likelihood, weights, prior)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("precision", [None, 0.3])
def test_one_basis_for_all_scales(precision):
    """(tau I + X'X)^-1 = T diag(1 / (tau + l)) T', with an intercept's own precision or none."""
    A = 0.2 * dense()
    A[:, -1] = 1.0
    basis, values = covariances.spectral_basis(A.T @ A, precision)
    for tau in (0.1, 2.0):
        prior = np.full(4, tau)
        spectrum = tau + values
        if precision is not None:
            prior[-1], spectrum[-1] = precision, values[-1]
        expected = np.linalg.inv(np.diag(prior) + A.T @ A)
        np.testing.assert_allclose(basis / spectrum @ basis.T, expected, atol=1e-10)
    if precision is None:
        assert values.min() < 1.0


def test_pairs_of_columns():
    A = dense()
    first, second = np.triu_indices(4)
    expected = A[:, first] * A[:, second]
    np.testing.assert_allclose(covariances.pairs(A), expected)
    found = covariances.sparse_pairs(scipy.sparse.csr_array(A)).toarray()
    np.testing.assert_allclose(found, expected)
    n, m = np.nonzero(A)
    order = np.lexsort((-m, n))  # columns of each row from the last to the first
    starts = np.append(0, np.cumsum(np.bincount(n, minlength=12)))
    parts = (A[n, m][order], m[order], starts)
    turned = scipy.sparse.csr_array(parts, shape=A.shape)
    np.testing.assert_allclose(covariances.sparse_pairs(turned).toarray(), expected)
    S = np.cov(RNG.normal(size=(4, 9)))
    packed = covariances.packed(S[None])
    np.testing.assert_allclose((expected @ packed)[:, 0], np.einsum("im,ml,il->i", A, S, A))
    few = scipy.sparse.csr_array(np.eye(20))
    assert covariances.few_pairs(few)
    assert not covariances.few_pairs(scipy.sparse.csr_array(np.ones((5, 4))))
    tenth = np.zeros((10, 10))
    tenth[3] = 1.0  # one full row of ten
    assert covariances.few_pairs(scipy.sparse.csr_array(tenth))
    tenth[4, 4] = 1.0
    assert not covariances.few_pairs(scipy.sparse.csr_array(tenth))


# The mode


def likelihood_of(sparse=False):
    return Likelihood(design_of(sparse), Y, Gumbel(), 4)


def test_a_likelihood_can_be_sent_to_another_process():
    """Where a cluster's worker dies, others get what it had."""
    for sparse in (False, True):
        own = Likelihood(design_of(sparse), Y, Gumbel(), 4)
        sent = pickle.loads(pickle.dumps(own))
        stack = np.random.default_rng(0).normal(size=(2, *own.shape))
        for ours, theirs in zip(own.gradients(stack), sent.gradients(stack), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("most_columns", [1_500, 3])
def test_slopes_vanish_at_the_mode(most_columns, monkeypatch):
    monkeypatch.setattr(_mode, "MOST_COLUMNS", most_columns)
    likelihood = likelihood_of()
    precision = RNG.uniform(0.5, 2.0, (4, 4))
    mean = RNG.normal(size=(1, 4))
    found, converged = _mode.find_mode(likelihood, precision, mean, np.zeros((4, 4)))
    assert converged
    slopes = precision * (found - mean) - likelihood.gradients(found[None])[1][0]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-4)


@kinds
def test_curvature_is_even_in_the_basis(sparse):
    units = np.array([0.5, 1.0, 2.0, 1.5])
    vectors, values = _mode._basis(likelihood_of(sparse), units)
    gram = dense().T @ (WEIGHTS[:, None] * dense()) * np.outer(units, units)
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, gram, atol=1e-10)  # type: ignore


def test_the_mean_of_a_gaussian_is_its_mode():
    """Draws come in pairs, so that nothing is left to chance; and from afar it is reached."""
    frame, precision = frames_of()[0]
    target = frame.mode + 0.3

    def slopes(stack):
        return -((stack - target).reshape(-1, 8) @ precision).reshape(stack.shape)

    nothing = SimpleNamespace(gradients=lambda stack: (0.0, np.zeros_like(stack)))
    rng = np.random.RandomState(0)
    found = _mode.mean_of_gaussian(nothing, slopes, frame, rng)  # type: ignore
    far = np.abs(frame.of_weights(target[None])).max()
    if far < 2 * _mode.LONGEST_STEP:  # two steps before those that count
        np.testing.assert_allclose(found, target, atol=1e-8)
    exact = _mode.mean_of_gaussian(
        nothing,  # type: ignore
        lambda stack: -((stack - frame.mode).reshape(-1, 8) @ precision).reshape(stack.shape),
        frame,
        rng,
    )
    np.testing.assert_allclose(exact, frame.mode, atol=1e-9)


# Chains


class GaussianLikelihood:
    """The likelihood of weights that are normal around a matrix."""

    def __init__(self, centre, precision):
        self.centre, self.precision, self.shape = centre, precision, centre.shape
        self.design = SimpleNamespace(n=100)

    def values(self, stack):
        return -0.5 * (self.precision * (stack - self.centre) ** 2).sum(axis=(1, 2))

    def gradients(self, stack):
        return self.values(stack), -self.precision * (stack - self.centre)


def gaussian_chains(kind=Chains, n_chains=500, prior_precision=1.5):
    likelihood = GaussianLikelihood(np.array([[1.0, -2.0, 0.5]]), np.array([[2.0, 0.5, 4.0]]))
    prior = PriorChain(np.array([0.3, 0.0, -0.1]), np.full(3, prior_precision), n_chains)

    def reframe(precision, near):
        total = likelihood.precision + precision
        mode = (likelihood.precision * likelihood.centre + precision * prior.mean) / total
        return _frames.DiagonalFrame(mode, total)

    start = np.zeros((1, 3))
    return kind(likelihood, prior, reframe, start, np.random.RandomState(0))


def test_steps_of_a_gaussian_posterior_are_never_rejected():
    chains = gaussian_chains()
    for _ in range(3):
        before = chains.stack
        assert chains._rotate(adapt=False) == pytest.approx(1.0, abs=1e-12)
        assert (chains.stack != before).all()
        # A quarter of a turn forgets where it began, but for what its angle is off.
        u, v = (chains.frame.of_weights(s).ravel() for s in (before, chains.stack))
        assert abs(np.corrcoef(u, v)[0, 1]) < 0.35
    u = chains.frame.of_weights(chains.stack)
    assert u.mean() == pytest.approx(0.0, abs=0.12)
    assert u.std() == pytest.approx(1.0, abs=0.08)


def test_what_is_known_of_a_place_follows_the_chains():
    """Where some chains have taken a step and others have not."""
    chains = gaussian_chains(n_chains=40)
    before = chains.stack
    turns = iter([np.float64(1.0), np.linspace(0.0, 2.0, 40)])
    chains.rng = SimpleNamespace(
        standard_normal=RNG.standard_normal, uniform=lambda *_, **__: next(turns)
    )
    chains._rotate(adapt=False)
    moved = (chains.stack != before).any(axis=(1, 2))
    assert moved.tolist() == [True] * 20 + [False] * 20
    place = chains._here()
    assert place.stack is chains.stack
    values, gradients = chains.likelihood.gradients(chains.stack)
    np.testing.assert_array_equal(place.values, values)
    np.testing.assert_array_equal(place.gradients, gradients)
    chains.stack = chains.stack + 1.0
    np.testing.assert_array_equal(chains._here().values, chains.likelihood.values(chains.stack))


def test_energies_are_those_of_the_posterior():
    chains = gaussian_chains(n_chains=4)
    likelihood, prior = chains.likelihood, chains.prior
    stack = RNG.normal(size=(4, 1, 3))
    away = 0.5 * (1.5 * (stack - prior.mean) ** 2).sum(axis=(1, 2))
    np.testing.assert_allclose(chains.energies(stack), away - likelihood.values(stack))
    np.testing.assert_allclose(chains._where_it_is()[:, 0], chains.energies(chains.stack))
    u, stretch = RNG.normal(size=(4, 1, 3)), np.ones((4, 1, 3))
    energies, rest = chains._energies_and_rest(u, stretch, chains._look(chains.frame.to_weights(u)))
    np.testing.assert_allclose(rest, 0.0, atol=1e-12)  # nothing but u in these coordinates
    np.testing.assert_allclose(energies, chains.energies(chains.frame.to_weights(u)))
    np.testing.assert_allclose(chains._stretch(), np.ones((4, 1, 3)))
    # Coordinates of a chain with a narrower prior shrink as its standard deviations do.
    chains.prior = PriorChain(prior.mean, np.full(3, 6.0), 4)
    expected = np.sqrt((likelihood.precision + 1.5) / (likelihood.precision + 6.0))
    np.testing.assert_allclose(chains._stretch(), np.tile(expected, (4, 1, 1)))


def test_angles_follow_the_rate_of_acceptance():
    chains = gaussian_chains(n_chains=4)
    start = chains.angle
    chains._rotate(adapt=True)
    assert chains.angle == pytest.approx(start * np.exp(0.5 * 0.2))
    chains.angle = 0.9
    chains._rotate(adapt=True)
    assert chains.angle == 0.9
    chains._rotate(adapt=False)
    assert chains.angle == 0.9
    gains = np.array([0.5, 0.0, -1.0, -np.inf])
    np.testing.assert_allclose(chains._accepted(gains), [1.0, 1.0, np.exp(-1.0), 0.0])


def test_draws_that_are_kept():
    chains = gaussian_chains(n_chains=6)
    seen = []
    drawn = chains.run(5, every=2, on_iteration=lambda: seen.append(1))
    assert drawn.stack.shape == (30, 1, 3)
    assert len(seen) in {16 * w + 10 for w in range(2, 9)}
    np.testing.assert_allclose(drawn.precisions, [[1.5, 1.5, 1.5]])
    assert drawn.log_scales.size == 0
    assert drawn.mixing.acceptance == pytest.approx(1.0)


def test_when_chains_have_arrived():
    now = 3.0 * RNG.normal(size=(16, 50, 2))
    spread = now.reshape(-1, 2).std(axis=0)
    for factor, settled in ((0.45, True), (0.55, False)):
        last = now - factor * spread
        assert _chains._is_settled(last, now) is settled
    still = np.zeros((16, 4, 1))
    assert _chains._is_settled(still + 0.09, still)
    assert not _chains._is_settled(still + 0.11, still)
    assert not _chains._is_settled(still - 0.11, still)


def test_moves_are_extrapolated_as_geometric_sums():
    found = _scale_chain._extrapolated(np.array([0.4, -0.4, 0.4]), np.array([0.2, -0.2, 0.01]))
    np.testing.assert_allclose(found, [0.2, -0.2, 0.0])  # 0.2 + 0.1 + 0.05 + ... beyond the 0.2
    assert _scale_chain._extrapolated(np.array([0.4]), np.array([-0.2]))[0] == 0.0
    longest = _scale_chain._extrapolated(np.array([0.3, -0.3]), np.array([0.29, -0.29]))
    np.testing.assert_allclose(longest, [0.5, -0.5])
    slow = _scale_chain._extrapolated(np.array([0.05]), np.array([0.049]))
    np.testing.assert_allclose(slow, 0.049 * 0.8 / 0.2)


def test_errors_of_a_step_are_tolerated_per_row():
    chain = gaussian_chains(_scale_chain.ScaleChain, n_chains=1)
    gains = np.array([0.0029, -0.0029, -0.0031, -2.0])  # three weights are fewer than the rows
    np.testing.assert_allclose(
        chain._accepted(gains), [1.0, 1.0, np.exp(-0.0031), np.exp(-2.0)], rtol=1e-12
    )


def test_standard_errors_of_means():
    draws = np.random.default_rng(1).normal(size=4_000)
    assert mean_error(draws, 8) == pytest.approx(draws.std(ddof=1) / np.sqrt(4_000), rel=0.15)
    assert np.isnan(mean_error(draws[:31], 8))
    assert np.isfinite(mean_error(draws[:32], 8))
    same = np.repeat(draws[:500], 8).reshape(500, 8)  # each is seen eight times in its chain
    repeated = mean_error(same.T.reshape(8, 500).T.reshape(-1), 8)
    assert repeated > 0.0


# The curvature of very many classes


@kinds
def test_own_scores(sparse):
    weights = RNG.normal(size=(4, 4))
    rows = likelihood_of(sparse).rows
    expected = (dense() @ weights.T)[np.arange(12), Y]
    np.testing.assert_allclose(_own_rows._own_scores(rows, weights, Y), expected)


def test_probabilities_of_labels_from_some_classes(monkeypatch):
    monkeypatch.setattr(_own_rows, "N_DRAWN", 20_000)
    monkeypatch.setattr(_own_rows, "ROWS_TOGETHER", 5)
    weights = RNG.normal(size=(4, 4))
    p = softmax(dense() @ weights.T, axis=1)[np.arange(12), Y]
    rng = np.random.RandomState(0)
    found = _own_rows.probabilities_of_labels(likelihood_of(), weights, rng)
    np.testing.assert_allclose(found, p, rtol=0.1)


# Averages of two likelihoods, and checks by simulation


@pytest.mark.parametrize("shift", [-300.0, 5.0, 300.0])
def test_expected_probabilities_do_not_know_a_level_of_all_scores(shift):
    rng = np.random.default_rng(2)
    mean, deviations = 4.0 * rng.normal(size=(6, 5)), rng.uniform(0.2, 1.5, (6, 5))
    normals = _expected_softmax.spread_normals(9, 5, rng)
    one, other = (
        _expected_softmax.log_expected_softmax(m, deviations, normals) for m in (mean, mean + shift)
    )
    np.testing.assert_allclose(other, one, atol=1e-9)
    np.testing.assert_allclose(np.exp(one).sum(axis=1), 1.0)


def test_keys_of_rows_depend_on_their_values_alone():
    keys = averaging._row_keys(X)
    assert len(set(keys.tolist())) == len({tuple(row) for row in X})
    np.testing.assert_array_equal(averaging._row_keys(scipy.sparse.csr_array(X)), keys)
    np.testing.assert_array_equal(averaging._row_keys(X[::-1]), keys[::-1])
    turned = averaging._row_keys(X[:, ::-1])
    assert (turned != keys)[np.count_nonzero(X, axis=1) > 1].all()


def check(coverages, level=0.9, levels=(0.5, 0.9)):
    shares = np.array(coverages)
    widths = np.full(len(shares), 0.25)
    return coverage.CoverageCheck(level, np.array(levels), shares, widths, "prior", 1_500)


def test_coverages_of_replicates():
    found = check([[0.4, 0.8], [0.6, 0.9], [0.5, 1.0]])
    assert found.per_replicate.tolist() == [0.8, 0.9, 1.0]
    assert found.coverage == pytest.approx(0.9)
    assert found.standard_error == pytest.approx(0.1 / np.sqrt(3))
    assert check([[0.4, 0.8]], level=0.5).coverage == pytest.approx(0.4)
    assert np.isnan(check([[0.4, 0.8]]).standard_error)
    assert "1 replicate of 1,500 rows, weights from the prior; mean width 0.25" in repr(
        check([[0.4, 0.8]])
    )
    assert repr(found).startswith("90 % intervals hold 90.0 % of the true probabilities, standard")
    ax = found.plot()
    line, bars = ax.lines[0], ax.containers[0]
    assert line.get_xydata().tolist() == [[0.0, 0.0], [1.0, 1.0]]
    np.testing.assert_allclose(bars[0].get_ydata(), [0.5, 0.9])
    low, high = (c.get_ydata() for c in bars[1])
    np.testing.assert_allclose(high - low, [4.0 * 0.1 / np.sqrt(3)] * 2)
    assert (ax.get_xlim(), ax.get_ylim()) == ((0.0, 1.0), (0.0, 1.0))


def test_labels_are_drawn_by_their_probabilities(monkeypatch):
    monkeypatch.setattr(coverage, "BLOCK", 4_000)
    weights = RNG.normal(size=(4, 4))
    posterior = SimpleNamespace(
        intercept=True, n_classes=4, log_probabilities=lambda s: log_softmax(s, axis=1)
    )
    rows = np.tile(X[:1], (20_000, 1))
    labels = coverage.draw_labels(posterior, rows, weights, np.random.RandomState(0))  # type: ignore
    expected = softmax(dense()[0] @ weights.T)
    np.testing.assert_allclose(np.bincount(labels, minlength=4) / 20_000, expected, atol=0.015)


@pytest.mark.parametrize("up_to", [0, 8])
def test_variances_of_rows_by_matrices_of_classes(monkeypatch, up_to):
    """x' S_k x, whether or not there are few enough columns for their pairs."""
    monkeypatch.setattr(full_matrices, "PAIRS_UP_TO", up_to)
    rng = np.random.default_rng(3)
    X, roots = rng.standard_normal((6, 2)), rng.standard_normal((4, 3, 3))
    matrices = roots @ roots.transpose(0, 2, 1)
    design = Design(X, True)
    found = ClassFull(matrices, np.zeros(4)).row_variances(design, slice(1, 4))
    expected = np.einsum("ni,kij,nj->nk", design.rows, matrices[1:], design.rows)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_matrices_of_draws():
    """One for each class, whatever the number of columns."""
    rng = np.random.default_rng(4)
    for shape in ((9, 4, 2), (9, 2, 4)):
        deviations = rng.standard_normal(shape)
        found = Drawn(deviations).array()
        expected = [np.cov(deviations[:, k], rowvar=False) for k in range(shape[1])]
        np.testing.assert_allclose(found, expected)


def test_pairs_are_taken_up_to_a_number_of_columns(monkeypatch):
    """One column more, and each class has a product of its own."""
    asked: Any = []
    monkeypatch.setattr(Design, "quadratic", lambda self, matrix: asked.append(1) or np.ones(6))
    monkeypatch.setattr(full_matrices, "PAIRS_UP_TO", 3)
    for n_columns in (3, 4):
        form = ClassFull(np.tile(np.eye(n_columns), (2, 1, 1)), np.zeros(2))
        form.row_variances(Design(np.ones((6, n_columns)), False), slice(0, 2))
        assert len(asked) == (0 if n_columns == 3 else 2)


@pytest.mark.parametrize("n", [1, 2, 5, 9, 10, 13, 30])
def test_draws_are_chosen_evenly(n):
    """Of ten: fewer are spread over all of them, and more repeat each about as often."""
    form = Drawn(np.arange(10.0)[:, None, None])
    orders: set[tuple[int, ...]] = set()
    seen: set[int] = set()
    for seed in range(50):
        found = form.draws(n, (1, 1), np.random.RandomState(seed)).ravel().astype(int)
        assert found.shape == (n,)
        times = np.bincount(found, minlength=10)
        assert set(times) <= {n // 10, -(-n // 10)}
        if n < 10:
            places = np.sort(found)
            gaps = np.diff(np.append(places, places[0] + 10))
            assert set(gaps) <= {10 // n, -(-10 // n)}
        orders.add(tuple(found))
        seen.update(found)
    assert seen == set(range(10))
    assert len(orders) > 1 or n == 10  # all that are kept stay in their order
    if n == 10:
        assert orders == {tuple(range(10))}


def forms() -> dict[str, tuple[covariances.Covariance, Any]]:
    """Covariances of three classes and four columns, with the matrix of all weights, (12, 12)."""
    rng = np.random.default_rng(8)
    roots, root = rng.normal(size=(3, 4, 5)), rng.normal(size=(12, 13))
    matrices, joint = roots @ roots.transpose(0, 2, 1), root @ root.T
    logs = np.linalg.slogdet(matrices)[1]
    values, basis = rng.uniform(0.5, 2.0, (3, 4)), rng.normal(size=(4, 4))
    one = covariances.SharedFull.from_precision(matrices[0])
    return {
        "shared": (one, np.kron(np.eye(3), np.linalg.inv(matrices[0]))),
        "class": (ClassFull(matrices, logs), block_diag(*matrices)),
        "joint": (covariances.JointFull(joint, 3), joint),
        "diagonal": (covariances.ClassDiagonal(values), np.diag(values.ravel())),
        "shared diagonal": (
            covariances.SharedDiagonal(values[0]),
            np.kron(np.eye(3), np.diag(values[0])),
        ),
        "spectral": (
            covariances.Spectral(basis, values),
            block_diag(*[basis @ np.diag(v) @ basis.T for v in values]),
        ),
    }


@pytest.mark.parametrize("kind", list(forms()))
@pytest.mark.parametrize("block", [slice(1, 3), np.array([2, 0])], ids=["slice", "numbers"])
def test_forms_answer_as_the_matrix_of_all_weights(kind, block):
    form, whole = forms()[kind]
    four = whole.reshape(3, 4, 3, 4)
    numbers = np.arange(3)[block]
    own = np.array([four[k, :, k] for k in numbers])
    rng = np.random.default_rng(9)
    design = Design(rng.normal(size=(5, 3)), True)
    x, tails = design.rows, np.array([0.1, 0.5, 0.8])

    def same(found, expected):
        np.testing.assert_allclose(np.broadcast_to(found, expected.shape), expected, atol=1e-9)

    for k, matrix in zip(numbers, own):
        same(form.matrix_of(k), matrix)
    same(form.variances(block), np.diagonal(own, axis1=1, axis2=2))
    same(form.log_determinants(block), np.linalg.slogdet(own)[1])
    same(form.row_variances(design, block), np.einsum("im,kml,il->ik", x, own, x))
    for base in (None, 1):
        e = np.eye(3)[numbers] - (0.0 if base is None else np.eye(3)[base])
        spread = np.einsum("ka,ambm,kb->km", e, four, e)
        if base is not None and form.independent_classes:  # as if of two classes in any case
            spread[numbers == base] = 2.0 * np.diag(four[base, :, base])
        same(form.difference_variances(block, base), spread)
        steps = stats.norm.ppf(tails)[:, None, None] * np.sqrt(spread)
        same(form.quantiles(tails, block, base), steps)
    scores = np.kron(np.array([-1.0, 0.0, 1.0]), x)  # of class 2 less class 0
    spread = np.einsum("ia,ab,ib->i", scores, whole, scores)
    same(form.row_difference_variances(design, 2, 0), spread)
    same(
        form.row_quantiles(tails, design, 2, 0),
        stats.norm.ppf(tails)[:, None] * np.sqrt(spread),
    )
    some = rng.normal(size=(4, 4))
    some = some if not form.diagonal else np.diag(np.diag(some))
    same(form.traces(some, block), np.einsum("kml,lm->k", own, some))
    same(form.traces(np.diag(some), block), np.einsum("kmm,m->k", own, np.diag(some)))
    assert form.n_kept is None
    assert form.kept_draws(numbers, numbers, None) is None


@pytest.mark.parametrize("kind", list(forms()))
def test_noise_is_coloured_by_a_root_of_the_matrix(kind):
    form, whole = forms()[kind]
    ends = form.colour(np.eye(12).reshape(12, 3, 4), slice(0, 3)).reshape(12, 12)
    np.testing.assert_allclose(ends.T @ ends, whole, atol=1e-9)
    noise = np.random.RandomState(3).standard_normal((2, 3, 4))
    drawn = form.draws(2, (3, 4), np.random.RandomState(3))
    np.testing.assert_allclose(drawn.reshape(2, 12), noise.reshape(2, 12) @ ends, atol=1e-9)


@pytest.mark.parametrize("block", [slice(1, 3), np.array([2, 0])], ids=["slice", "numbers"])
def test_draws_answer_as_their_moments(block):
    """Variances, determinants and quantiles of draws, of their differences and of scores."""
    rng = np.random.default_rng(7)
    deviations = rng.normal(size=(19, 3, 4)) * np.array([1.0, 2.0, 3.0])[:, None]
    form, design = Drawn(deviations), Design(rng.normal(size=(6, 4)), False)
    own, tails = deviations[:, block], np.array([0.05, 0.5, 0.95])
    assert form.n_kept == 19
    np.testing.assert_allclose(form.variances(block), own.var(axis=0, ddof=1))
    matrices = [np.cov(own[:, b], rowvar=False) for b in range(2)]
    np.testing.assert_allclose(form.log_determinants(block), np.linalg.slogdet(matrices)[1])
    scores = np.einsum("im,skm->ski", design.rows, deviations)
    np.testing.assert_allclose(
        form.row_variances(design, block), scores[:, block].var(axis=0, ddof=1).T
    )
    for base, less in ((None, 0.0), (1, deviations[:, 1:2])):
        spread = (own - less).var(axis=0, ddof=1)
        np.testing.assert_allclose(form.difference_variances(block, base), spread, atol=1e-30)
        ranked = np.sort(own - less, axis=0)  # tails are those of the first, tenth and last
        np.testing.assert_allclose(form.quantiles(tails, block, base), ranked[[0, 9, 18]])
    between = scores[:, 2] - scores[:, 0]
    np.testing.assert_allclose(
        form.row_difference_variances(design, 2, 0), between.var(axis=0, ddof=1)
    )
    ranked = np.sort(between, axis=0)
    np.testing.assert_allclose(form.row_quantiles(tails, design, 2, 0), ranked[[0, 9, 18]])
    classes, columns = np.array([2, 0, 2]), np.array([0, 1, 1])
    kept = form.kept_draws(classes, columns, None)
    assert kept is not None
    np.testing.assert_array_equal(kept, deviations[:, [2, 0, 2], [0, 1, 1]])
    beside = form.kept_draws(classes, columns, 1)
    assert beside is not None
    np.testing.assert_allclose(beside, kept - deviations[:, [1, 1, 1], [0, 1, 1]])
    with pytest.raises(TypeError, match="see `draws`"):
        form.colour(np.zeros((2, 3, 2)), block)


# The curvature in one basis for all classes


@kinds
@pytest.mark.parametrize("turned", [True, False])
def test_blocks_of_rows_add_up_to_the_curvature(monkeypatch, sparse, turned):
    """Whatever their number: the rows that stand out are known by their own numbers."""
    monkeypatch.setattr(_low_rank_frame, "EXACT_UP_TO", 0)
    monkeypatch.setattr(_low_rank_frame, "MOST_TURNED", 4 if turned else 3)
    weights = np.linspace(-1.0, 1.0, 16).reshape(4, 4)
    found = []
    for chunk, least in ((1 << 20, 128), (1, 5)):  # all twelve rows, or five at a time
        monkeypatch.setattr(_low_rank_frame, "CHUNK", chunk)
        monkeypatch.setattr(_low_rank_frame, "LEAST_ROWS", least)
        curvature = _low_rank_frame.Curvature.at(likelihood_of(sparse), weights, np.ones((1, 4)))
        assert bool(curvature.basis.size) is turned
        found.append((curvature.spectra, *curvature.entries, curvature.covariance(1).array()))
    for one, several in zip(*found):
        np.testing.assert_allclose(several, one, rtol=1e-5, atol=1e-6)


def test_every_so_many_rows_make_the_basis_in_any_blocks(monkeypatch):
    """T' P T = I, and the sum over every third row is diagonal."""
    monkeypatch.setattr(_low_rank_frame, "ROWS_OF_BASIS", 1)  # of twelve rows, for four columns
    prior = np.array([[0.5, 1.0, 2.0, 4.0]])
    some = dense()[::3] * np.sqrt(WEIGHTS[::3, None])
    monkeypatch.setattr(_low_rank_frame, "LEAST_ROWS", 1)
    for chunk in (8, 11, 1_000):  # blocks of three rows, of four, and of all
        monkeypatch.setattr(_low_rank_frame, "CHUNK", chunk)
        basis = _low_rank_frame.basis_of(likelihood_of(), prior, lambda rows: WEIGHTS[rows])
        np.testing.assert_allclose(basis.T @ np.diag(prior[0]) @ basis, np.eye(4), atol=1e-12)
        turned = basis.T @ some.T @ some @ basis
        np.testing.assert_allclose(turned, np.diag(np.diag(turned)), atol=1e-10)


def test_units_of_columns_do_not_decide_which_directions_are_kept():
    """Even where the rows leave nothing open: here, all but 1e-12 of a column's precision."""
    z = np.array([[1.0, 0.0, 0.0], [0.0, 3.0, 0.5], [0.0, -0.5, 2.0]])
    diagonal = np.square(z).sum(axis=0) + np.array([1e-12, 1.0, 1.0])
    d, own, shrunk = _low_rank_frame._directions(diagonal, z, 1)
    np.testing.assert_allclose(np.abs(own), [[1.0, 0.0, 0.0]], atol=1e-9)
    for units in ([1e-5, 1.0, 1.0], [1e5, 1.0, 1e-3]):
        by = np.array(units)
        other = _low_rank_frame._directions(diagonal * by**2, z * by, 1)
        np.testing.assert_allclose(other[0], d * by**2, rtol=1e-3)
        np.testing.assert_allclose(np.abs(other[1]), np.abs(own), atol=1e-9)
        np.testing.assert_allclose(other[2], shrunk)
