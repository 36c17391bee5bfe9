"""Pieces of the posteriors by themselves: costs and plans, steps, sizes of columns, priors.

Each is held to its formula, or to what scipy says of it, without a fit.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy import stats
from scipy.special import gammaln

from bigcat import noise as noises
from bigcat.auto import Parameters, plan_for
from bigcat.bayes import (
    AugmentReducePosterior,
    GaussianPrior,
    HierarchicalPrior,
    HorseshoePrior,
    IndependentBinary,
    Laplace,
    LearnedScale,
    _newton,
)
from bigcat.bayes import _around_linear as around_linear
from bigcat.bayes import _binary_memory as binary_memory
from bigcat.bayes import _laplace_plan as costs
from bigcat.bayes import _prior_arrays as arrays
from bigcat.bayes._column_sizes import ColumnSizes, column_means
from bigcat.bayes._design import CHUNK, Design
from bigcat.bayes._gamma import gamma_terms, mixed_gamma_terms
from bigcat.bayes._laplace_plan import Plan, Work, plan
from bigcat.bayes._quantiles import quantiles_of
from bigcat.bayes.binary_fit import BLOCK_SCORES, block_scores, class_blocks
from bigcat.bayes.covariance import PAIRS_CHUNK, PAIRS_UP_TO, ClassDiagonal
from bigcat.bayes.links import LINKS
from bigcat.bayes.one_scale import best_precision
from bigcat.bayes.posterior import BLOCK
from bigcat.bayes.prior_chains import PriorChain, Scales
from bigcat.bayes.summary import _of_classes
from bigcat.bayes.weight_posterior import Start, _Watched
from bigcat.bayes.weight_prior import WeightPrior
from bigcat.noise import Gaussian, Gumbel
from bigcat.probabilities import score_scale
from bigcat.rows import Problem, Sizes, as_rows

DENSE = Work(1_000, 21, 50, 21.0, False, True)
SPARSE = Work(1_000, 2_001, 50, 11.0, True, True)


# What a fit costs


def test_sizes_of_a_fit():
    sizes = Sizes.of(scipy.sparse.random_array((30, 8), density=0.25, format="csr", rng=0), 4)
    with_ones = Work.of(sizes, True, Gumbel())
    assert with_ones == (30, 9, 4, 60 / 30 + 1, True, True)
    without = Work.of(Sizes.of(np.ones((30, 8)), 4), False, Gaussian())
    assert without == (30, 8, 4, 8.0, False, False)
    assert without.n_weights == 32
    single = Work.of(Sizes.of(scipy.sparse.csr_array([[0.0, 2.0, 3.0]]), 4), False, Gumbel())
    assert single.row_values == 2.0


def test_seconds_by_their_formulas():
    assert DENSE.score_seconds() == pytest.approx(6e-9 + 6e-11 * 21)
    assert SPARSE.score_seconds() == pytest.approx(6e-9 + 1.5e-9 * 11)
    assert DENSE._replace(softmax=False).score_seconds() == 1e-6
    assert DENSE.gradient_seconds() == pytest.approx(1_000 * 50 * DENSE.score_seconds())
    assert DENSE.mode_seconds() == pytest.approx(60 * DENSE.gradient_seconds())
    assert DENSE.block_seconds() == pytest.approx(50 * (21**3 + 1_000 * 21**2) / 2e10)
    sums = min(1_000 * 11.0**2 / 5e8, 1_000 * 2_001**2 / 2e10)
    assert SPARSE.block_seconds() == pytest.approx(50 * (sums + 2_001**3 / 2e10))
    filled = SPARSE._replace(row_values=2_001.0)
    assert filled.block_seconds() == pytest.approx(50 * (1_000 * 2_001**2 + 2_001**3) / 2e10)
    basis = 1_000 * 50 * 21 * 6e-11
    assert DENSE.curvature_seconds() == pytest.approx(DENSE.gradient_seconds() + basis)
    wide = SPARSE._replace(n_columns=2_049)
    assert wide.curvature_seconds() == wide.gradient_seconds()
    edge = SPARSE._replace(n_columns=2_048)
    assert edge.curvature_seconds() > edge.gradient_seconds()


def test_seconds_of_turning_are_those_of_two_products():
    """With a matrix of all weights, one for each class, or a number for each weight."""
    assert DENSE.turning_seconds("full") == pytest.approx(2 * 7e-11 * 1_050**2)
    assert DENSE.turning_seconds("class") == pytest.approx(2 * 3e-10 * 50 * 21**2)
    assert DENSE.turning_seconds("diagonal") == pytest.approx(2 * 3e-10 * 1_050)


def test_a_long_way_to_the_mode_is_told_from_ten_minutes_on():
    rows = int(600 / 60 / 50 / DENSE.score_seconds())
    assert DENSE._replace(n_rows=rows - 1).warning() is None
    text = DENSE._replace(n_rows=rows + 100).warning()
    assert text is not None
    assert "50 classes and 21 columns visits all classes of" in text
    assert "some 60 times, about 10 minutes of a processor" in text


@pytest.mark.parametrize(
    ("work", "frame"),
    [
        (Work(100, 32, 32, 32.0, False, True), "full"),  # 1,024 weights
        (Work(100, 33, 32, 33.0, False, True), "class"),
        (Work(10_000, 101, 100, 101.0, False, True), "class"),
        (Work(10_000, 101, 10_000, 101.0, False, True), "diagonal"),
        (Work(10, 4_001, 17, 3.0, True, True), "diagonal"),  # 2^28 numbers, and a few
        (Work(10, 64, 1 << 16, 3.0, True, True), "class"),  # 2^28 numbers, in less than a second
        (Work(10, 64, (1 << 16) + 1, 3.0, True, True), "diagonal"),
    ],
)
def test_coordinates_of_chains(work, frame):
    assert costs.finest(work, costs.SECONDS_OF_FRAME) == frame


def test_finer_forms_where_there_is_more_time():
    work = Work(10_000, 101, 1_000, 101.0, False, True)
    seconds = work.block_seconds()
    assert costs.finest(work, seconds * 1.01) == "class"
    assert costs.finest(work, seconds * 0.99) == "diagonal"
    assert costs.finest(work) == "class"  # twenty seconds


def planned(work, covariance="auto", rank="auto", prior=None, usual=True, n_draws=400):
    return plan(covariance, rank, work, prior or LearnedScale(), usual, n_draws)


def test_draws_of_small_problems():
    found = planned(DENSE)
    assert (found.form, found.n_chains, found.n_kept, found.frame) == ("draws", 8, 50, "class")
    gradient = DENSE.gradient_seconds() + DENSE.turning_seconds("class")
    seconds = (40 + 50) * 8 * 7.0 * gradient
    assert found.every == int(np.clip(4.0 / seconds, 1, 4))
    assert found.most_every == int(np.clip(24.0 / seconds, found.every, 16)) > found.every
    assert found.most_iterations == 128 + 50 * found.most_every
    assert planned(DENSE, n_draws=401).n_kept == 51
    assert planned(DENSE._replace(n_classes=95)).n_chains == 8  # 1,995 weights
    assert planned(DENSE._replace(n_classes=96)).n_chains == 4
    assert planned(DENSE._replace(n_rows=9, n_columns=1, n_classes=1_999)).n_chains == 8
    assert planned(DENSE._replace(n_rows=9, n_columns=1, n_classes=2_000)).n_chains == 4
    assert planned(DENSE, "draws").reason == "named"
    assert planned(DENSE, "draws").told()["chains"] == 8


@pytest.mark.parametrize(("seconds", "every", "most"), [(1.9, 2, 12), (10, 1, 2), (30, 1, 1)])
def test_draws_that_take_long_are_taken_one_after_the_other(seconds, every, most):
    """Several iterations for each of them where all take less than four seconds, or 24."""
    of_gradients = seconds / ((40 + 50) * 8 * 7.0) - DENSE.turning_seconds("class")
    rows = round(1_000 * of_gradients / DENSE.gradient_seconds())
    found = planned(DENSE._replace(n_rows=rows))
    assert (found.form, found.n_chains, found.every, found.most_every) == ("draws", 8, every, most)


def test_a_plan_where_nobody_says_otherwise():
    """All rows, each iteration a draw, around the mode, in columns that are turned."""
    found = Plan("draws", "full", 4, 25, "")
    assert (found.n_rows, found.every, found.most_every) == (None, 1, 1)
    assert (found.around, found.n_directions, found.turns_columns) == ("mode", 0, True)
    assert found.most_iterations == 128 + 25
    assert [Plan("class", "full", n, 9, "").one_chain for n in (1, 2, 4)] == [True, False, False]


def test_the_bytes_of_a_mode_are_those_of_its_plan():
    """A fit around the mode alone needs nothing of a linear fit."""
    sizes = Sizes(1_000, 20, 50, 20_000, False, 20)
    found = Laplace().memory_needed(
        sizes, np.float64, LearnedScale(), fit_intercept=True, n_threads=1
    )
    assert found == costs.memory(planned(DENSE), DENSE, 400, 1) > 0


def test_many_weights_of_low_rank_have_nothing_beside_them():
    parameters = Parameters(noises.resolve("gumbel"))
    few, many = (Sizes(50_000, 1 << 14, k, 1_000_000, True, 20) for k in (1 << 10, (1 << 10) + 1))
    assert around_linear._plan(parameters, few) == plan_for(parameters, few)
    alone = around_linear._plan(parameters, many)
    assert all(candidate.config.kind.rank for candidate in alone.candidates)
    assert plan_for(parameters, many) != alone


def test_draws_end_where_they_take_a_minute_or_too_much_memory():
    work = Work(1_000, 101, 50, 101.0, False, True)
    iteration = (40 + 100) * 4 * 7.0
    left = 60.0 / iteration - work.turning_seconds("class")
    rows = int(left / work.gradient_seconds() * 1_000)
    assert planned(work._replace(n_rows=rows - 5)).form == "draws"
    longer = planned(work._replace(n_rows=rows + 5))
    assert longer.form == "class"
    assert longer.reason.startswith("chains would take some 60 seconds; a matrix for each class")
    numbers = costs.MOST_KEPT // 400
    few_rows = Work(5, numbers // 50, 50, 2.0, True, True)
    assert planned(few_rows).form == "draws"
    assert planned(few_rows._replace(n_columns=numbers // 50 + 1)).form == "low-rank"
    full = Work(5, 1 << 10, 1 << 10, 2.0, True, True)
    assert planned(full, n_draws=256).form == "draws"  # as many numbers as may be kept
    assert planned(full, n_draws=257).form == "low-rank"


def test_chains_that_tell_the_prior_alone():
    small = planned(DENSE, "class")
    assert (small.n_chains, small.n_kept, small.n_rows, small.one_chain) == (4, 16, None, False)
    assert small.frame == "class"
    gradient = DENSE.gradient_seconds() / DENSE.n_rows
    for seconds, kept, share in ((0.1, 40, 1.0), (0.01, 100, 1.0), (2.0, 10, 1.0), (6.0, 10, 0.5)):
        work = DENSE._replace(n_rows=round(seconds / 5.5 / gradient))
        found = planned(work, "class")
        if seconds == 0.01:  # 56 iterations of four chains take less than four seconds
            assert found.n_chains == 4
            continue
        assert (found.n_chains, found.frame) == (1, "diagonal")
        assert found.n_kept == pytest.approx(kept, abs=1)
        if share == 1.0:
            assert found.n_rows is None
        else:
            assert found.n_rows == pytest.approx(work.n_rows * share, rel=1e-3)
    assert planned(DENSE._replace(n_rows=1, n_classes=10**10), "class").n_rows == 1
    edge = int(4.0 / (56 * 4) / 5.5 / gradient)
    assert planned(DENSE._replace(n_rows=edge), "class").n_chains == 4
    assert planned(DENSE._replace(n_rows=edge + 2), "class").n_chains == 1


def test_forms_by_name():
    for form in ("full", "class", "diagonal"):
        found = planned(DENSE, form)
        assert (found.form, found.around, found.turns_columns) == (
            form,
            "mode",
            form != "diagonal",
        )
    low = planned(DENSE, "low-rank")
    assert (low.form, low.n_directions, low.around) == ("low-rank", 16, "either")
    assert planned(DENSE, "low-rank", usual=False).around == "mode"
    assert planned(DENSE, "low-rank", rank=None).around == "mode"
    assert planned(DENSE._replace(softmax=False), "low-rank").around == "mode"
    assert planned(DENSE, rank=3).around == "linear"
    assert planned(DENSE, rank=3).reason == "rank is given"
    slow = DENSE._replace(n_rows=int(5.0 / 60 / 50 / DENSE.score_seconds()) + 2)
    assert planned(slow, "low-rank").around == "linear"
    assert planned(slow._replace(n_rows=slow.n_rows - 4), "low-rank").around == "either"
    wide = Work(1_000, 2_049, 100, 9.0, True, True)
    assert not planned(wide, "low-rank").turns_columns
    assert planned(wide._replace(n_columns=2_048), "low-rank").turns_columns
    many = Work(1_000, 30_000, 1_000, 9.0, True, True)
    assert planned(many, "low-rank").n_directions == (1 << 28) // 30_000_000
    assert planned(many._replace(n_classes=9_000), "low-rank").n_directions == 4


def test_a_matrix_per_class_of_few_columns():
    few = Work(40_000, 256, 60, 256.0, False, True)
    assert planned(few).form == "class"
    assert planned(few._replace(n_columns=257)).form == "low-rank"
    assert planned(few._replace(n_columns=257), rank=None).form == "class"
    assert planned(few._replace(n_columns=257), usual=False).form == "class"
    slow = few._replace(n_classes=1_000)
    assert slow.block_seconds() > 60.0
    assert planned(slow, rank=None).form == "low-rank"
    between = few._replace(n_classes=300)
    assert 20.0 < between.block_seconds() < 60.0
    assert planned(between).form == "class"
    assert planned(between._replace(n_columns=257), rank=None).form == "low-rank"


def test_matrices_of_very_many_classes_are_too_many_numbers():
    """Quick as they would be; and the reason says how many."""
    most = Work(10, 64, 1 << 16, 3.0, True, True)
    assert most.block_seconds() < 1.0
    assert planned(most).form == "class"
    more = planned(most._replace(n_classes=(1 << 16) + 1))
    assert more.form == "low-rank"
    assert more.reason.endswith(f"takes 1, and {((1 << 16) + 1) * 64**2:,} numbers")


def test_scales_of_classes_are_learnt_by_draws_alone():
    for prior in (HierarchicalPrior("class"), HorseshoePrior()):
        with pytest.raises(ValueError, match=r"has a scale for each class, and covariance='class'"):
            planned(DENSE, "class", prior=prior)
        assert planned(DENSE, "draws", prior=prior).form == "draws"
        with pytest.raises(ValueError, match="and a fit whose draws would take"):
            planned(DENSE._replace(n_rows=10_000_000), prior=prior)
    assert planned(DENSE, "class", prior=HierarchicalPrior("feature")).form == "class"
    assert planned(DENSE, "class", prior=GaussianPrior()).form == "class"


@pytest.mark.parametrize(
    ("form", "numbers"),
    [
        ("draws", 3 * 100 * 1_050 + 4 * 1_050**2),
        ("full", 4 * 1_050**2),
        ("class", 4 * 50 * 21**2),
        ("diagonal", 4 * 1_050),
    ],
)
def test_bytes_of_what_is_kept(form, numbers):
    rows, optimiser = 1_000 * (2 * 21 + 4), 30 * 1_050
    kept = Plan(form, "full", 4, 25, "")
    assert costs.memory(kept, DENSE, 100, 1) == 8 * (numbers + rows + optimiser)


@pytest.mark.parametrize(("frame", "numbers"), [("class", 3 * 50 * 21**2), ("diagonal", 2 * 1_050)])
def test_bytes_of_coordinates(frame, numbers):
    draws = Plan("draws", frame, 4, 25, "")
    alone = 8 * (3 * 100 * 1_050 + 1_000 * (2 * 21 + 4) + 30 * 1_050)
    assert costs.memory(draws, DENSE, 100, 1) == alone + 8 * numbers


def test_bytes_of_directions():
    blocks = 16 * max(CHUNK, 128 * (50 + 21))
    rows = 1_000 * 21 * 12
    found = costs.low_rank_bytes(DENSE, 5)
    assert found == 24 * 21**2 + 1_050 * (8 + 12 + 20) + blocks + rows
    sparse = SPARSE._replace(n_columns=2_049)
    blocks = 16 * max(CHUNK, 128 * (50 + 2_049))
    expected = 50 * 2_049 * (8 + 12 + 20) + blocks + 1_000 * 11 * 20
    assert costs.low_rank_bytes(sparse, 5) == expected
    edge = SPARSE._replace(n_columns=2_048)  # the last that has a basis
    blocks = 16 * max(CHUNK, 128 * (50 + 2_048))
    expected = 24 * 2_048**2 + 50 * 2_048 * (8 + 12 + 20) + blocks + 1_000 * 11 * 20
    assert costs.low_rank_bytes(edge, 5) == expected
    many = SPARSE._replace(n_classes=20_000, n_columns=2_049)
    blocks = 16 * 128 * (20_000 + 2_049)
    expected = 20_000 * 2_049 * (8 + 12 + 20) + blocks + 1_000 * 11 * 20
    assert costs.low_rank_bytes(many, 5) == expected
    kept = Plan("low-rank", "diagonal", 1, 10, "", n_directions=5)
    others = 8 * (1_000 * (2 * 21 + 4) + 30 * 1_050 + 2 * 100 * 1_000)
    assert costs.memory(kept, DENSE, 100, 1) == int(found + others)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("row_variances", [True, False])
@pytest.mark.parametrize("sharing", ["shared", "class", "coordinate"])
@pytest.mark.parametrize("stored", [None, 5_000.0])
def test_bytes_of_binary_regressions(full, row_variances, sharing, stored):
    """The larger of two phases: the fit, and draws that tell how good its likelihoods are."""
    n, k, threads = 700, 40, 2
    for m in (9, PAIRS_UP_TO, PAIRS_UP_TO + 1):
        weights = k * m
        rows = 1.5 * n * m if stored is None else (1.5 if full else 2.5) * stored
        posterior = weights
        if full:
            posterior += k * m**2 if row_variances or sharing == "coordinate" else 0
        else:
            posterior += weights * (row_variances or sharing != "shared")
        fit = rows + posterior + (6 * m**2 + weights * row_variances if full else 0)
        fit += {"shared": 0, "class": 1, "coordinate": 3}[sharing] * weights
        block = (6.7 if row_variances else 4.7) * n * 32  # 40 classes are blocks of 32 and 8
        if full and row_variances:
            block = max(block, 3.0 * n * 32 + min(PAIRS_CHUNK, n * m**2 / 2))
            block += (1.5 if m <= 256 else 2.0) * 32 * m**2
        elif row_variances and stored is None:
            block += n * m
        fit += 2 * (block + 8.0 * m * 32)
        draws = (11.5 if posterior > weights else 9.5) * n * k + (n * m if stored is None else 0)
        options = {"full": full, "row_variances": row_variances, "sharing": sharing}
        for averages, numbers in ((False, fit), (True, max(fit, posterior + weights + draws))):
            found = binary_memory.forecast(
                n, m, k, stored=stored, n_threads=threads, averages=averages, **options
            )
            assert found == pytest.approx(8 * numbers, rel=1e-12, abs=1)


@pytest.mark.parametrize("stored", [None, 5_000.0])
def test_bytes_of_very_many_scores(stored):
    """Squares of rows and draws are made a few rows at a time."""
    given: dict[str, Any] = {"stored": stored, "full": False, "row_variances": True}
    given |= {"sharing": "shared", "n_threads": 1}
    n, m, k = 10**6, 9, 40
    rows = 1.5 * n * m if stored is None else 2.5 * stored
    fit = rows + 2 * k * m + 6.7 * n * 32 + 8.0 * m * 32 + (CHUNK if stored is None else 0)
    assert binary_memory.forecast(n, m, k, averages=True, **given) == int(8 * fit)
    n, m, k = 40_000, 9, 10**4
    some = BLOCK // k + 1
    draws = 3 * k * m + 11.5 * some * k + (some * m if stored is None else 0)
    assert binary_memory.forecast(n, m, k, averages=True, **given) == int(8 * draws)


def test_blocks_of_classes():
    assert [len(block) for block in class_blocks(100, 70)] == [35, 35]
    assert [len(block) for block in class_blocks(100, 40)] == [32, 8]
    assert [len(block) for block in class_blocks(BLOCK_SCORES // 50, 200)] == [50] * 4
    assert [len(block) for block in class_blocks(0, 3)] == [3]
    assert np.concatenate(class_blocks(100, 70)).tolist() == list(range(70))
    assert (block_scores(True), block_scores(False)) == (3 * BLOCK_SCORES, BLOCK_SCORES)


# Sizes of columns


@pytest.mark.parametrize("sparse", [False, True])
def test_sizes_of_columns(sparse):
    """Mean squares; what is mostly zero by the rest, and a column without values counts as 1."""
    X = np.array(
        [[2.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, -1.0], [3.0, 4.0, 0.0, 0.0], [1, 0, 0, 2.0]]
    )
    weights = np.array([1.0, 2.0, 1.0, 1.0])
    rows = scipy.sparse.csr_array(X) if sparse else X
    for intercept in (False, True):
        found = ColumnSizes.of(Design(rows, intercept, weights))
        squares = weights @ X**2 / 5.0
        expected = [squares[0], 16.0, 1.0, squares[3]]  # 4 of 5 are a value: not mostly zero
        np.testing.assert_allclose(found.sizes, expected)
        assert found.squared_length == pytest.approx((squares / expected).sum())


def test_a_column_of_which_half_is_zero_is_none_that_is_mostly_zero():
    half = ColumnSizes.of(Design(np.array([[1.0], [0.0], [3.0], [0.0]]), False, np.ones(4)))
    assert half.sizes.tolist() == [2.5]
    with np.errstate(all="raise"):
        nothing = ColumnSizes.of(Design(np.zeros((2, 1)), False, np.ones(2)))
    assert nothing == ([1.0], 1e-12)


def test_explicit_zeros_of_sparse_rows_are_zeros():
    rows = scipy.sparse.csr_array((np.array([0.0, 2.0]), np.array([0, 0]), [0, 1, 2, 2, 2, 2]))
    found = ColumnSizes.of(Design(rows, False, np.ones(5)))
    assert found.sizes.tolist() == [4.0]


def test_means_of_columns():
    X, weights = np.array([[1.0, 2.0], [4.0, 0.0]]), np.array([3.0, 1.0])
    np.testing.assert_allclose(column_means(X, weights), [7 / 4, 6 / 4])  # type: ignore
    assert column_means(scipy.sparse.csr_array(X), weights) is None


# Steps of binary regressions


def test_conjugate_gradients_solve():
    rng = np.random.default_rng(0)
    X, right = rng.normal(size=(30, 4)), rng.normal(size=(4, 3))
    weights, penalty = rng.uniform(0.1, 1.0, (30, 3)), rng.uniform(0.5, 2.0, (4, 3))
    found = _newton.conjugate_gradients(
        Design(X, False),
        weights,
        _newton.precision_product(penalty, False),
        right,
        _newton.diagonal_preconditioner(penalty),
        np.full(3, 1e-9),
    )
    for k in range(3):
        matrix = X.T @ (weights[:, [k]] * X) + np.diag(penalty[:, k])
        np.testing.assert_allclose(found.step[:, k], np.linalg.solve(matrix, right[:, k]))
    np.testing.assert_allclose(found.scores, X @ found.step)


def test_products_and_preconditioners():
    rng = np.random.default_rng(1)
    V, P = rng.normal(size=(3, 2)), rng.normal(size=(3, 3))
    np.testing.assert_allclose(_newton.precision_product(P, True)(V), P @ V)
    np.testing.assert_allclose(_newton.precision_product(P[:, :1], False)(V), P[:, :1] * V)
    d = rng.uniform(1.0, 2.0, (3, 2))
    np.testing.assert_allclose(_newton.diagonal_preconditioner(d)(V), V / d)
    found = _newton.spectral_preconditioner(P, d)(V)
    for k in range(2):
        np.testing.assert_allclose(found[:, k], P @ np.diag(1 / d[:, k]) @ P.T @ V[:, k])


def test_tolerances_fall_with_the_decrement():
    found = _newton.forcing(np.array([4.0, 0.01, 1e-9, -1.0]), 1.0)
    np.testing.assert_allclose(found, [0.1, 0.1, 1e-3, 1e-3])
    np.testing.assert_allclose(_newton.forcing(np.array([1e-4]), np.array([1.0])), [1e-2])


def searched(step, start=2.0, offset=0.0):
    """Climb -(x - 1)^2 + offset from `start`, by a step: one row and one column."""
    mean = np.array([[start]])
    direction = _newton.Direction(np.array([[step]]), np.array([[step]]))
    current = np.array([offset - (start - 1.0) ** 2])
    slope = np.array([-2.0 * (start - 1.0) * step])
    return _newton.line_search(
        lambda scores: offset - ((scores - 1.0) ** 2).sum(axis=0),
        lambda mean: np.zeros(1),
        mean,
        mean,
        direction,
        current,
        slope,
    )


def test_a_step_is_halved_until_it_climbs():
    whole = searched(-1.0)
    assert (whole.mean, whole.scores, whole.gain) == (1.0, 1.0, 1.0)
    halved = searched(-3.0)
    assert (halved.mean, halved.gain) == (0.5, 0.75)
    assert searched(-7.0).mean == pytest.approx(2.0 - 7.0 / 4)
    away = searched(1.0)  # no step that way climbs
    assert (away.mean, away.scores, away.gain) == (2.0, 2.0, 0.0)


def test_what_is_left_to_gain_by_rounding_is_left():
    """A slope of 1e-15 of the value: nothing moves, and there is no gain."""
    still = searched(-1e-9, start=1.0 + 1e-9, offset=-1e9)
    assert still.gain == pytest.approx(0.0, abs=1e-6)
    both = _newton.line_search(
        lambda scores: -((scores - 1.0) ** 2).sum(axis=0),
        lambda mean: np.zeros(2),
        np.array([[2.0, 2.0]]),
        np.array([[2.0, 2.0]]),
        _newton.Direction(np.array([[1.0, -3.0]]), np.array([[1.0, -3.0]])),
        np.array([-1.0, -1.0]),
        np.array([-2.0, 6.0]),
    )
    assert both.mean.tolist() == [[2.0, 0.5]]  # each class by itself
    assert both.gain.tolist() == [0.0, 0.75]


# Distributions


@pytest.mark.parametrize(("shape0", "rate0", "shape", "rate"), [(0.5, 0.5, 3.0, 2.0), (2, 1, 4, 5)])
def test_gamma_terms_are_expectations(shape0, rate0, shape, rate):
    q, p = stats.gamma(shape, scale=1 / rate), stats.gamma(shape0, scale=1 / rate0)
    expected = q.expect(p.logpdf) + q.entropy()
    found = gamma_terms(shape0, rate0, shape, np.array([rate]))
    assert found[0] == pytest.approx(expected, rel=1e-6)


def test_mixed_gamma_terms_are_expectations():
    """E[log Gamma(x; 1/2, a)] over independent q(x) and q(a), term by term."""
    q, a = stats.gamma(3.0, scale=1 / 2.0), stats.gamma(1.0, scale=1 / 1.5)
    energy = 0.5 * a.expect(np.log) - gammaln(0.5) - 0.5 * q.expect(np.log) - a.mean() * q.mean()
    found = mixed_gamma_terms(3.0, np.array([2.0]), np.array([1.5]))
    assert found[0] == pytest.approx(energy + q.entropy(), rel=1e-6)


def test_quantiles_between_draws_and_at_their_ends():
    draws = np.array([5.0, 1.0, 3.0])
    assert quantiles_of(draws, np.array([0.25, 0.375, 0.5, 0.01, 0.99])).tolist() == [
        1.0,
        2.0,
        3.0,
        1.0,
        5.0,
    ]
    wide = np.stack([draws, 10 * draws], axis=1)
    np.testing.assert_allclose(quantiles_of(wide, np.array([0.625])), [[4.0, 40.0]])
    np.testing.assert_allclose(quantiles_of(wide.T, np.array([0.625]), axis=1), [[4.0, 40.0]])


def test_the_best_precision_of_weights():
    assert best_precision(10, 40.0) == 0.25
    assert (best_precision(10, 0.0), best_precision(1, 1e300)) == (1e8, 1e-8)


# Priors as arrays


def test_means_of_priors():
    assert arrays.full_mean(2.0, 3, True).tolist() == [2.0, 2.0, 0.0]
    assert arrays.full_mean(2.0, 2, False).tolist() == [2.0, 2.0]
    assert arrays.full_mean([1.0, 2.0], 3, True).tolist() == [1.0, 2.0, 0.0]
    assert arrays.full_mean([1.0, 2.0, 3.0], 3, True).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="holds NaN or inf"):
        arrays.full_mean(np.nan, 2, False)
    with pytest.raises(ValueError, match=r"shape \(2,\); give .* for 3 columns$"):
        arrays.full_mean([1.0, 2.0], 3, False)
    with pytest.raises(ValueError, match="for 3 columns or 2 without the intercept"):
        arrays.full_mean([1.0], 3, True)


def test_precisions_of_priors():
    assert arrays.full_precision(4.0, 3, True, 0.0).tolist() == [4.0, 4.0, 4.0]
    assert arrays.full_precision(4.0, 3, True, 0.01).tolist() == [4.0, 4.0, 0.01]
    assert arrays.full_precision(4.0, 2, False, 0.01).tolist() == [4.0, 4.0]
    assert arrays.full_precision([1.0, 2.0], 3, True, 0.0).tolist() == [1.0, 2.0, 1.0]
    assert arrays.full_precision([1.0, 2.0, 5.0], 3, True, 0.3).tolist() == [1.0, 2.0, 0.3]
    matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
    wide = arrays.full_precision(matrix, 3, True, 0.0)
    assert wide.tolist() == [[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert arrays.full_precision(matrix, 3, True, 0.3)[2].tolist() == [0.0, 0.0, 0.3]
    assert arrays.full_precision(matrix, 2, True, 0.3).tolist() == [[2.0, 0.0], [0.0, 0.3]]
    assert arrays.full_precision(matrix, 2, False, 0.3).tolist() == matrix.tolist()
    for wrong, text in (
        (0.0, "above 0 for every column"),
        ([1.0, -1.0], "above 0 for every column"),
        (np.inf, "holds NaN or inf"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), "must be symmetric"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "must be positive definite"),
        ([1.0, 1.0, 1.0], r"precision of the prior has shape \(3,\)"),
    ):
        with pytest.raises(ValueError, match=text):
            arrays.full_precision(wrong, 2, False, 0.0)


def test_numbers_of_priors():
    assert arrays.precision_of(4.0) == 1 / 16
    assert arrays.fixed_units(2, True, 10.0).tolist() == [1.0, 1.0, 0.01]
    assert arrays.fixed_units(2, False, 10.0).tolist() == [1.0, 1.0]
    for wrong in (0.0, -1.0, np.inf, np.nan, [1.0], 1j):
        with pytest.raises(ValueError, match=r"width=.* of the prior must be a finite number"):
            arrays.check_positive("width", wrong)


def test_one_scale_of_a_gaussian_prior():
    assert GaussianPrior(scale=2.0).one_scale() == (2.0, 2.0)
    assert GaussianPrior(scale=2.0, intercept_scale=9.0).one_scale() == (2.0, 9.0)
    assert GaussianPrior(precision=0.25).one_scale() == (2.0, 2.0)
    assert GaussianPrior(precision=[1.0, 2.0]).one_scale() is None
    assert GaussianPrior(mean=1.0).one_scale() is None


def test_weights_of_a_prior():
    rng = np.random.RandomState(0)
    matrix = np.array([[2.0, 0.6], [0.6, 1.0]])
    drawn = WeightPrior.of_matrix(np.array([1.0, -1.0]), matrix).draw(40_000, rng)
    np.testing.assert_allclose(drawn.mean(axis=0), [1.0, -1.0], atol=0.03)
    np.testing.assert_allclose(np.cov(drawn.T), np.linalg.inv(matrix), atol=0.04)
    means = np.array([3.0, -2.0])
    plain = WeightPrior(np.zeros(3), np.array([[4.0, 1.0, 0.25]]))
    one = plain.draw(7, np.random.RandomState(1))
    moved = plain._replace(means=means).draw(7, np.random.RandomState(1))
    np.testing.assert_allclose(moved[:, :2], one[:, :2])
    np.testing.assert_allclose(moved[:, 2], one[:, 2] - one[:, :2] @ means)


# Priors as chains see them


def chain(**parts):
    units = np.array([1.0, 4.0, 0.5])
    return PriorChain(np.array([0.1, -0.2, 0.3]), units, 2, **parts)


def some_scales(*groups, seed=0, **options):
    rng = np.random.default_rng(seed)
    return Scales(rng.uniform(0.5, 2.0, groups), rng.uniform(0.5, 2.0, groups), **options)


def test_precisions_are_products():
    scales, features = some_scales(2, 4, 1), some_scales(2, 1, 2, seed=1)
    local, last = some_scales(2, 4, 2, seed=2), some_scales(2, 1, 1, seed=3)
    whole = chain(scales=scales, features=features, locals_=local, intercepts=last)
    product = scales.values * features.values * local.values * np.array([1.0, 4.0])
    np.testing.assert_allclose(whole.precision[:, :, :2], product)
    np.testing.assert_allclose(whole.precision[:, :, 2:], np.tile(0.5 * last.values, (1, 4, 1)))
    assert chain().precision.tolist() == [[[1.0, 4.0, 0.5]]] * 2
    none = PriorChain(np.zeros(3), np.array([1.0, 4.0, 0.5]), 2, has_intercept=False)
    assert none.precision.shape == (2, 1, 3)
    np.testing.assert_allclose(whole.typical(), np.sqrt(whole.precision[0] * whole.precision[1]))
    assert [c.learns for c in (whole, chain(), chain(features=features))] == [True, False, True]


class Expected:
    """In the place of a generator: the expectation of each draw, and what was asked for."""

    def __init__(self):
        self.shapes = []

    def gamma(self, shape, size):
        self.shapes.append(float(shape))
        return np.full(size, float(shape))


@pytest.mark.parametrize("per_class", [False, True])
def test_scales_given_weights_have_the_rates_of_their_groups(per_class):
    stack = np.random.default_rng(4).normal(size=(2, 4, 3))
    groups = (2, 4, 1) if per_class else (2, 1, 1)
    scales, features = some_scales(*groups, shape=0.7), some_scales(2, 1, 2, seed=1, shape=0.6)
    last = some_scales(2, 1, 1, seed=3, shape=0.8)
    rng = Expected()
    start = chain(scales=scales, features=features, intercepts=last)
    found = start.drawn(stack, rng)
    squares = (stack - start.mean) ** 2 * start.units
    sums = (squares[:, :, :2] * scales.values).sum(axis=1, keepdims=True)
    new = (0.6 + 0.5 * 4) / (features.rate + 0.5 * sums)
    np.testing.assert_allclose(found.features.values, new)
    axes, count = ((2,), 2) if per_class else ((1, 2), 8)
    sums = (squares[:, :, :2] * new).sum(axis=axes, keepdims=True)
    np.testing.assert_allclose(
        found.scales.values, (0.7 + 0.5 * count) / (scales.rate + 0.5 * sums)
    )
    sums = squares[:, :, 2:].sum(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(found.intercepts.values, (0.8 + 0.5 * 4) / (last.rate + 0.5 * sums))
    assert rng.shapes == pytest.approx([2.6, 0.7 + 0.5 * count, 2.8])


def test_a_scale_for_each_weight():
    stack = np.random.default_rng(4).normal(size=(2, 4, 3))
    scales, local = some_scales(2, 4, 1), some_scales(2, 4, 2, seed=2)
    start = chain(scales=scales, locals_=local)
    found = start.drawn(stack, Expected())
    squares = ((stack - start.mean) ** 2 * start.units)[:, :, :2]
    new = (0.5 + 0.5) / (local.rate + 0.5 * squares * scales.values)
    np.testing.assert_allclose(found.locals_.values, new)
    sums = (squares * new).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(found.scales.values, (0.5 + 1.0) / (scales.rate + 0.5 * sums))


def test_rates_of_half_t_distributions_are_drawn_too():
    scales = Scales.half_t(2.0, (2, 1, 1), freedom=4.0, start=0.5)
    assert (scales.shape, scales.width) == (2.0, 2.0)
    assert scales.values.ravel().tolist() == [0.5, 0.5]
    assert scales.rate.ravel().tolist() == [4.0, 4.0]
    found = scales.drawn(6.0, np.full((2, 1, 1), 3.0), Expected())  # type: ignore
    np.testing.assert_allclose(found.values, (2.0 + 3.0) / (4.0 + 1.5))
    np.testing.assert_allclose(found.rate, 4.0 * 2.5 / (0.25 + 4.0 * found.values))
    plain = Scales.gamma(0.7, 0.9, (2, 1, 1))
    assert (plain.values == 1.0).all()
    assert (plain.drawn(6.0, np.ones((2, 1, 1)), Expected()).rate == 0.9).all()  # type: ignore
    tiny = Scales.gamma(0.7, 0.9, (2, 1, 1)).drawn(1.0, np.full((2, 1, 1), 1e300), Expected())  # type: ignore
    assert (tiny.values == 1e-12).all()


def test_scales_times_factors_and_their_density():
    scales = some_scales(2, 3, 1, shape=0.7)
    factors = np.array([2.0, 0.5])
    moved = scales.rescaled(factors)
    np.testing.assert_allclose(moved.values, scales.values / factors.reshape(2, 1, 1) ** 2)
    terms = 0.7 * np.log(scales.values) - scales.rate * scales.values
    np.testing.assert_allclose(scales.log_density(), terms.sum(axis=(1, 2)))
    chosen = np.array([True, False])
    other = some_scales(2, 3, 1, seed=9)
    mixed = scales.where(chosen, other)
    for name in ("values", "rate"):
        assert (getattr(mixed, name)[0] == getattr(other, name)[0]).all()
        assert (getattr(mixed, name)[1] == getattr(scales, name)[1]).all()


def test_what_of_a_chain_is_scaled_and_chosen():
    scales, features, last = (
        some_scales(2, 1, 1),
        some_scales(2, 1, 2, seed=1),
        some_scales(2, 1, 1, seed=2),
    )
    whole = chain(scales=scales, features=features, intercepts=last)
    assert whole.scalable() == [("scales", slice(0, 2)), ("intercepts", slice(2, 3))]
    assert chain(features=features).scalable() == [("features", slice(0, 2))]
    assert chain().scalable() == []
    kind = whole.scalable()[1]
    moved = whole.rescaled(kind, np.array([2.0, 3.0]))
    np.testing.assert_allclose(moved.intercepts.values.ravel(), last.values.ravel() / [4.0, 9.0])
    assert moved.scales is scales
    np.testing.assert_allclose(whole.log_density(kind), last.log_density())
    other = chain(
        scales=some_scales(2, 1, 1, seed=5),
        features=some_scales(2, 1, 2, seed=6),
        intercepts=some_scales(2, 1, 1, seed=7),
    )
    mixed = whole.where(np.array([False, True]), other)
    for name in ("scales", "features", "intercepts"):
        mine, theirs, now = (getattr(c, name).values for c in (whole, other, mixed))
        assert (now[0] == mine[0]).all()
        assert (now[1] == theirs[1]).all()
    assert mixed.locals_ is None
    logs = np.log(scales.values).ravel(), np.log(last.values).ravel()
    np.testing.assert_allclose(whole.summary(), np.stack(logs, axis=1))
    alone = chain(features=features).summary()
    np.testing.assert_allclose(alone[:, 0], np.log(features.values).mean(axis=(1, 2)))


# Links, starts, tables


@pytest.mark.parametrize("name", LINKS)
def test_links(name):
    link, t = LINKS[name], np.array([-30.0, -1.2, 0.0, 0.7, 6.0])
    cdf = {"probit": stats.norm.cdf, "logit": stats.logistic.cdf}[name](t)
    np.testing.assert_allclose(link.cdf(t), cdf, rtol=1e-12)
    np.testing.assert_allclose(np.exp(link.log_cdf(t)), cdf, rtol=1e-12)
    np.testing.assert_allclose(link.score_of(cdf[1:]), t[1:], rtol=1e-6, atol=1e-12)
    odds = link.log_cdf(t) - link.log_cdf(-t)
    np.testing.assert_allclose(link.log_odds(t), odds, rtol=1e-12)
    factor = {"probit": 1.0, "logit": np.pi / 8.0}[name]
    np.testing.assert_allclose(link.averaged(t, 4.0 * np.ones(5)), t / np.sqrt(1 + 4 * factor))


def test_another_noise_starts_at_its_own_scale():
    """Scores of the Gaussian noise are wider or narrower, and curvatures in them by the square."""
    rng = np.random.default_rng(0)
    rows, y = as_rows(rng.normal(size=(20, 3)), np.float64), rng.integers(0, 4, 20)
    problem = Problem(rows, y, np.ones(20), 3, 4, fit_intercept=True)
    softmax, probit = (
        Start(problem, AugmentReducePosterior(noise=noise).parts(), 0.5, None)
        for noise in (Gumbel(), Gaussian())
    )
    scale = score_scale(Gaussian(), 4)
    assert abs(scale - 1.0) > 0.05
    np.testing.assert_allclose(probit.intercepts.mean, softmax.intercepts.mean * scale)
    np.testing.assert_allclose(probit.weights.information, softmax.weights.information / scale**2)


def test_the_bar_of_a_posterior_shows_its_elbo():
    seen: list[tuple[float, ...]] = []
    record: Any = SimpleNamespace(chunk_done=lambda *told: seen.append(told), compiled=None)
    passes: Any = SimpleNamespace(last_kl=3.0, total_weight=6.0)
    _Watched(passes, record, None).chunk_done(0.25, -2.0)
    assert seen == [(0.25, -2.5)]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept_scale", [None, 3.0])
def test_where_a_weight_posterior_starts(sparse, intercept_scale):
    """Scores of the frequencies, and the curvature that the softmax bound has there."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), rng.integers(0, 4, 20)
    weights = rng.uniform(0.5, 2.0, 20)
    rows = as_rows(scipy.sparse.csr_array(X) if sparse else X, np.float64)
    problem = Problem(rows, y, weights, 3, 4, fit_intercept=True)
    parts = AugmentReducePosterior().parts()
    start = Start(problem, parts, 0.5, intercept_scale)
    f = np.bincount(y, weights, 4) + 0.5
    f /= f.sum()
    curvature = 2.0 * f * (1.0 - f)
    squares = weights @ X**2
    expected = np.outer(squares, curvature) if sparse else np.outer(curvature, squares)
    np.testing.assert_allclose(start.weights.information, expected.ravel())
    assert (start.weights.prior_precision, start.weights.base) == (4.0, 4.0)
    assert not start.weights.mean.any()
    logs = np.log(f)
    np.testing.assert_allclose(start.intercepts.mean, logs - logs.mean())
    np.testing.assert_allclose(start.intercepts.information, weights.sum() * curvature)
    base = np.inf if intercept_scale is None else 1 / 9
    assert start.intercepts.base == pytest.approx(base)
    assert start.intercepts.prior_precision == (0.0 if intercept_scale is None else base)
    variance = (squares / weights.sum() / (4.0 + np.outer(curvature, squares))).sum(axis=1)
    variance += 1.0 / (base + weights.sum() * curvature)
    table = parts.bound.initial_local(parts.noise, logs - logs.mean() + 0.5 * variance)
    np.testing.assert_allclose(start.local[:, 0], (table[:, 0] + variance)[y])
    assert (start.weights.seen == -1).all()


def test_bytes_of_a_weight_posterior():
    sizes = Sizes(100, 20, 7, 600, True, 9)
    needed = AugmentReducePosterior(validation_fraction=None).memory_needed(
        sizes, np.float64, GaussianPrior(), fit_intercept=True, n_threads=1
    )
    rows = 600 * (8 + 4) + 8 * 100 * (2 + 4)
    assert needed == 21 * 7 * (5 * 8 + 4) + rows
    held = AugmentReducePosterior(validation_fraction=0.1).memory_needed(
        sizes, np.float32, GaussianPrior(), fit_intercept=True, n_threads=1
    )
    assert held == 21 * 7 * (7 * 4 + 4) + 600 * 8 + 8 * 100 * 6


# Options


@pytest.mark.parametrize("name", ["link", "likelihood", "covariance", "solver"])
def test_choices_of_binary_regressions(name):
    with pytest.raises(ValueError, match=f"{name}='other'"):
        IndependentBinary(**{name: "other"})  # type: ignore


def test_limits_of_binary_regressions():
    at_the_limits = IndependentBinary(tol=0.0, max_iter=1, n_draws=1, step_power=1.0, total_rows=1)
    assert at_the_limits.step_power == 1.0
    for name, wrong in (
        ("tol", -1e-12),
        ("tol", np.inf),
        ("max_iter", 0),
        ("n_draws", 0),
        ("step_power", 0.5),
        ("step_power", 1.01),
        ("total_rows", 0),
    ):
        with pytest.raises(ValueError, match=f"{name}={wrong}"):
            IndependentBinary(**{name: wrong})  # type: ignore


def test_the_surest_weights_of_many():
    """The five of each class, and no others: by mean over standard deviation."""
    rng = np.random.default_rng(0)
    mean, variances = rng.normal(size=(3, 40)), rng.uniform(0.1, 2.0, (3, 40))
    q = SimpleNamespace(mean=mean, covariance_form=ClassDiagonal(variances))
    tails = np.array([0.05, 0.95])
    for base in (None, 2):
        classes = np.array([0, 1])
        numbers, columns, found = _of_classes(q, classes, np.arange(40), 5, tails, base)  # type: ignore
        away = mean[:2] - (0.0 if base is None else mean[2])
        sd = np.sqrt(variances[:2] + (0.0 if base is None else variances[2]))
        for k in (0, 1):
            best = set(np.argsort(-np.abs(away[k]) / sd[k])[:5])
            assert set(columns[numbers == k]) == best
        np.testing.assert_allclose(found[0], away[numbers, columns])
        np.testing.assert_allclose(found[1], sd[numbers, columns])
        np.testing.assert_allclose(found[3] - found[2], 2 * 1.644854 * found[1], rtol=1e-5)
