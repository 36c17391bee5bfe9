"""One fit on a cluster: survey, hold rows out, rounds, how far to trust them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from distributed import Future
from sklearn.utils.class_weight import compute_class_weight

from bigcat.dask.blocks import (
    Block,
    Known,
    Numbered,
    Run,
    held_rows,
    kept_rows,
    labels_at_end,
    one_below_the_other,
)
from bigcat.dask.cluster import Cluster
from bigcat.dask.rounds import Combined, Rounds, State, cut, joined
from bigcat.dask.source import Lanes
from bigcat.dask.survey import Survey, no_rows
from bigcat.linear import LinearModel, Weights
from bigcat.solvers import DivergedError
from bigcat.training import progress
from bigcat.training.blend import Blend, find_factors
from bigcat.training.fit import (
    COST_OF_NODES,
    LEAST_ROWS,
    MOST_HELD_OUT_SCORES,
    MOST_SCORES,
    DivergedFit,
    InterruptedFit,
    Outcome,
    Tell,
)
from bigcat.training.loop import Keeper, run_epochs
from bigcat.training.members import followed
from bigcat.training.now import ModelOfNow
from bigcat.training.recipe import Recipe
from bigcat.training.record import Record
from bigcat.training.rounds import Slices, Trained, Whole, begin, model_of
from bigcat.training.run import MANY_CLASSES, by_frequency
from bigcat.training.sample import Sample
from bigcat.training.snapshot import Snapshot
from bigcat.training.start import scores_of_frequencies, smoothed
from bigcat.training.task import rows_to_hold_out

#: Rounds that a fit has at least, and with few lanes; with fewer rounds it costs quality.
ROUNDS, FEW_LANES, ROUNDS_OF_FEW_LANES = 256, 2, 128
#: From so many bytes of weights on they are combined in slices, of which there are so many at most.
BYTES_OF_SLICE, MOST_SLICES = 1 << 24, 16


def least_rounds(n_lanes: int) -> int:
    return ROUNDS_OF_FEW_LANES if n_lanes <= FEW_LANES else ROUNDS


# What tasks do


def know_classes(survey: Survey, class_weight: Any) -> Known:
    """`class_weight` as estimators have it."""
    order, factors = order_of(survey), None
    if isinstance(class_weight, str):
        present = survey.counts > 0
        each = survey.counts.sum() / (present.sum() * np.maximum(survey.counts, 1))
        factors = np.where(present, each, 0.0)[order]
    elif class_weight is not None:
        factors = compute_class_weight(class_weight, classes=survey.classes, y=survey.classes)[
            order
        ]
    return Known(survey.classes, np.argsort(order), factors)


def order_of(survey: Survey) -> np.ndarray:
    """Classes as they are trained."""
    if len(survey.classes) < MANY_CLASSES:
        return np.arange(len(survey.classes))
    return by_frequency(survey.weights)


def hold_classes(known: Known, survey: Survey, at_ends: list[np.ndarray]) -> Known:
    """With the classes that keep a row when all rows at the ends of blocks are held out."""
    left = survey.counts[order_of(survey)] - np.sum(at_ends, axis=0)
    return replace(known, may_be_held=left > 0)


def know_whole(
    survey: Survey, known: Known, held: list[Sample], n_lanes: int, head: np.ndarray
) -> Whole:
    weights = survey.weights[order_of(survey)].astype(np.float64)
    if known.factors is not None:
        weights = weights * known.factors
    n_rows = survey.n_rows
    for sample in held:
        weights = weights - np.bincount(sample.labels, sample.row_weights, len(weights))
        n_rows -= sample.n_rows
    return Whole(
        n_rows,
        float(weights.sum()),
        survey.sizes.n_features,
        survey.sizes.sparse,
        np.maximum(weights, 0.0),
        survey.lengths.mean(float(survey.weights.sum())),
        survey.usual_size,
        survey.typical_size,
        n_lanes,
        head,
    )


def model_after(recipe: Recipe, whole: Whole, form: Sample, state: list[Combined]) -> LinearModel:
    return LinearModel(*model_of(recipe, whole, form, joined(state)), recipe.parts.noise)


def log_likelihoods(
    recipe: Recipe, whole: Whole, form: Sample, state: list[Combined], samples: list[Sample]
) -> tuple[float, float]:
    """Sum over some rows, and their weight."""
    model = model_after(recipe, whole, form, state)
    weights = [float(sample.row_weights.sum()) for sample in samples]
    return (
        sum(w * model.mean_log_likelihood(*sample[:3]) for w, sample in zip(weights, samples) if w),
        sum(weights),
    )


def factor_of(
    recipe: Recipe, whole: Whole, form: Sample, state: list[Combined], held: list[Sample]
) -> tuple[Blend, np.ndarray]:
    """How far held-out rows trust the fit, and the scores of frequencies."""
    model = model_after(recipe, whole, form, state)
    base = np.zeros(len(whole.class_weights))
    if recipe.fit_intercept:
        base = scores_of_frequencies(smoothed(whole.class_weights), recipe.parts.noise)
    return find_factors([model], base, one_below_the_other(held)), base


def some_kept(rows: Numbered | Run, known: Known, n: int, most: int, end: int) -> Sample:
    """Training rows to look at."""
    return kept_rows(rows, known, 0, min(n, most), end, 0)


@dataclass
class ClusterFit:
    """A recipe with rows on a cluster.

    Parameters
    ----------
    lanes : Lanes
    survey, known : Future
        Of `Survey` and `Known`.
    sizes : Survey
        The survey itself.
    """

    cluster: Cluster
    recipe: Recipe
    lanes: Lanes
    survey: Future[Survey]
    known: Future[Known]
    found: Survey
    seed: int
    rows_per_round: int | None
    head: np.ndarray
    validation: list[Future[Sample]] | None
    tell: Tell
    progress: bool | str
    keeper: Keeper

    def run(self, start: tuple[Weights, np.ndarray] | None) -> Outcome:
        cluster, recipe = self.cluster, self.recipe
        blocks = self._held_out() if self._holds_out else self._all_rows()
        n_lanes = len(blocks)
        self.form = Sample(no_rows(self.found), np.empty(0, np.int64), np.empty(0))
        self.whole = cluster.submit(
            "whole", know_whole, self.survey, self.known, self.held, n_lanes, self.head
        )
        weight = cluster.result(cluster.submit("weight", _weight, self.whole))
        first = None if start is None else cluster.put(start)
        begun = cluster.submit("start", begin, recipe, self.whole, self.form, self.seed, first)
        self.judges = self.validation or self.held
        self.rounds = Rounds(
            cluster,
            recipe,
            blocks,
            self.whole,
            self.known,
            weight,
            self._rows_per_round(n_lanes),
            begun,
            self._slices(n_lanes),
            self.seed,
        )
        bound = recipe.parts.bound
        how = (self.progress, recipe.max_epochs, bound.name, bound.word)
        with progress.reporter(*how) as report:
            self.record = Record(recipe.stop(), report, recipe.max_epochs)
            try:
                run_epochs(self.rounds, recipe.max_epochs, _Watched(self), self.keeper)
            except KeyboardInterrupt:
                if not self.record.history:
                    raise
                raise InterruptedFit(self._outcome(self._best())) from None
            except DivergedError as error:
                raise DivergedFit(str(error), None) from None
        return self._trusted(self._best())

    # Rows

    @property
    def _holds_out(self) -> bool:
        return self.validation is None and (self.recipe.blends or self.recipe.early_stopping)

    def _all_rows(self) -> list[list[Block]]:
        self.held: list[Future[Sample]] = []
        return [[Block(rows, n, n) for rows, n in lane] for lane in self.lanes]

    def _held_out(self) -> list[list[Block]]:
        """The last rows of every block, but no class loses all its rows."""
        n = self.found.n_rows
        wanted = rows_to_hold_out(self.found.counts)
        if self.recipe.validation_fraction is not None:
            wanted = min(round(self.recipe.validation_fraction * n), self._most_judged())
        blocks = [
            [Block(rows, m, m - min(-(-wanted * m // n), m)) for rows, m in lane]
            for lane in self.lanes
        ]
        each = [(i, block) for i, lane in enumerate(blocks) for block in lane]

        def at_ends(function: Callable[..., Any]) -> list[Future[Any]]:
            return [
                self.cluster.submit("ends", function, b.rows, self.known, b.end, b.n_rows, lane=i)
                for i, b in each
                if b.end < b.n_rows
            ]

        ends = at_ends(labels_at_end)
        self.known = self.cluster.submit("known", hold_classes, self.known, self.survey, ends)
        self.held = at_ends(held_rows)
        n_held = sum(
            self.cluster.results([self.cluster.submit("n", _n_rows, h) for h in self.held])
        )
        if not n_held:
            remedy = "give X_val and y_val or set early_stopping=False"
            if self.recipe.must_hold_out:
                raise ValueError(
                    f"no validation row has a class that is left in the training rows; {remedy}"
                )
            self.recipe = replace(self.recipe.without_held_out_rows(), blends=False)
        return blocks

    def _most_judged(self) -> int:
        scores = MOST_HELD_OUT_SCORES
        if not self.recipe.parts.noise.softmax:
            scores //= COST_OF_NODES
        return max(scores // len(self.found.classes), LEAST_ROWS)

    def _slices(self, n_lanes: int) -> Slices:
        """As many as pay: each has a task for every lane in every round."""
        sizes = self.found.sizes
        n_majors, n_minors = self.recipe.kind.trained_shape(sizes)
        large = 4 * n_majors * n_minors >= BYTES_OF_SLICE
        return Slices(n_majors, sizes.n_classes, min(n_lanes, MOST_SLICES) if large else 1)

    def _rows_per_round(self, n_lanes: int) -> int:
        if self.rows_per_round is not None:
            return self.rows_per_round
        rounds = -(-least_rounds(n_lanes) // self.recipe.max_epochs)
        return max(self.found.n_rows // (n_lanes * rounds), self.recipe.batch_size)

    # After each epoch, and at the end

    def judged(self, samples: list[Future[Sample]], state: State) -> float:
        """Mean log-likelihood of rows, each group of which a task looks at."""
        if not samples:
            return float("nan")
        groups = [samples[i :: self.cluster.n_lanes] for i in range(self.cluster.n_lanes)]
        model = (self.recipe, self.whole, self.form, state)
        sums = self.cluster.results(
            [
                self.cluster.submit("judge", log_likelihoods, *model, group, lane=lane)
                for lane, group in enumerate(groups)
                if group
            ]
        )
        total, weight = np.sum(sums, axis=0)
        return float(total / weight) if weight else float("nan")

    def training_rows(self) -> list[Future[Sample]]:
        """Some, where the objective says nothing about the log-likelihood."""
        if self.recipe.parts.bound.is_bound:
            return []
        most = max(MOST_SCORES // len(self.found.classes), LEAST_ROWS)
        block = self.rounds.lanes[0][0]
        arguments = (block.rows, self.known, block.n_rows, most, block.end)
        return [self.cluster.submit("some", some_kept, *arguments, lane=0)]

    def _best(self) -> State:
        kept = self.record.best.kept
        return self.rounds.now if kept is None else kept

    def model(self, state: State) -> LinearModel:
        """The weights of a round, in this process."""
        whole, trained = self.cluster.fetch(self.whole), self.rounds.fetched(state)
        return model_after(self.recipe, whole, self.form, [Combined(trained)])

    def _outcome(self, state: State) -> Outcome:
        model, order = self.model(state), order_of(self.found)
        number = np.argsort(order)
        outcome = Outcome.checked(
            model.weights,
            model.intercept,
            self.record.history,
            self.recipe.parts.solver.if_diverged,
            head=np.sort(order[self.head]),
            best_epoch=self.record.best.epoch,
        )
        outcome.weights = outcome.weights.take(number)
        outcome.intercept = outcome.intercept[number]
        outcome.history.choice = self.recipe.choice
        return outcome

    def _trusted(self, state: State) -> Outcome:
        """The outcome, trusted as far as held-out rows say."""
        outcome = self._outcome(state)
        if not self.recipe.blends or not self.judges:
            return outcome
        arguments = (self.recipe, self.whole, self.form, state, self.judges)
        blend, base = self.cluster.result(self.cluster.submit("blend", factor_of, *arguments))
        factor = float(blend.factors[0]) if blend.pays else 0.0
        number = np.argsort(order_of(self.found))
        outcome = followed(outcome, factor, base[number], blend.n_rows)
        report = {"factor": factor, "gain": blend.gain, "held_out_rows": blend.n_rows}
        outcome.history.choice = {**(self.recipe.choice or {}), "blend": report}
        return outcome


def _weight(whole: Whole) -> float:
    return whole.weight


def _n_rows(sample: Sample) -> int:
    return sample.n_rows


class _Watched:
    """Tells the record of a fit what the loop tells."""

    def __init__(self, fit: ClusterFit) -> None:
        self.fit, self.record = fit, fit.record
        self.compiled, self.chunk_done = fit.record.compiled, fit.record.chunk_done
        self.training = fit.training_rows()

    def epoch_done(self, value: float, seconds: float) -> bool:
        fit, now, keeps = self.fit, self.fit.rounds.now, self.fit.recipe.early_stopping
        watched = bool(fit.validation) or keeps
        score = fit.judged(fit.judges, now) if watched else float("nan")
        is_bound = fit.recipe.parts.bound.is_bound
        columns = {
            "objective": float(value),
            "bound": float(value) if is_bound else float("nan"),
            "log_likelihood": fit.judged(self.training, now),
            "validation_log_likelihood": score,
        }
        stop = self.record.add(
            seconds,
            columns,
            watched=score if keeps else value,
            keep=(lambda: now) if keeps else None,
        )
        classes = fit.found.classes[order_of(fit.found)]
        model = ModelOfNow(lambda: fit.model(now), lambda X: X, classes)
        return fit.tell(self.record.history[-1], model) or stop

    def snapshot(self) -> Snapshot:
        kept = self.record.snapshot()
        best = self.record.best.kept
        if best is not None:
            kept.put("best", self.fit.rounds.fetched(best).snapshot())
        return kept

    def restore(self, kept: Snapshot) -> None:
        best, of_best = kept.part("best"), None
        if best.arrays:
            cluster, slices = self.fit.cluster, self.fit.rounds.slices
            of_best = cut(cluster, cluster.put(Trained.restored(best)), slices)
        self.record.restore(kept, of_best)
