"""A recipe with its data: one fit of it, and what is held out or tried before."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bigcat.rows import Problem, as_rows
from bigcat.training.blend import most_rows_scored
from bigcat.training.fit import Audience, Fit, Outcome, Start
from bigcat.training.history import History
from bigcat.training.rate_search import search_rate
from bigcat.training.recipe import Recipe
from bigcat.training.record import Before
from bigcat.training.row_space import RowSpace
from bigcat.training.sample import Kinds, Sample, hold_out
from bigcat.training.start import scores_of_frequencies, smoothed
from bigcat.training.state import State
from bigcat.training.stopping import Never
from bigcat.training.streams import hold_out_last

#: Rows held out for a choice that we make ourselves: a tenth, but at least so many of all, and at
#: most so many, or as many as have the least number of classes other than the most frequent one,
#: which alone say little; with many classes no more than can be scored.
HELD_OUT_PART, LEAST_HELD_OUT, MOST_HELD_OUT = 10, 100, 1_000
#: Groups held out, where rows depend on each other within them, if these are a fifth at most.
LEAST_GROUPS_HELD_OUT = 20


@dataclass(frozen=True)
class Task:
    """A recipe with its data, classes numbered as they are trained."""

    recipe: Recipe
    data: Sample
    n_classes: int
    audience: Audience
    random_state: np.random.RandomState
    #: Where the fits are made, if not in the columns of the data; rows are held out as they are.
    space: RowSpace | None = None
    #: Which rows stay on one side of every split; None where nobody looked for near copies.
    kinds: Kinds | None = None

    def problem(self) -> Problem:
        recipe, (X, labels, weights, _) = self.recipe, self.data
        frequencies = np.bincount(labels, weights, self.n_classes)
        return Problem(
            as_rows(X, recipe.kind.working_dtype(X.dtype, X.shape[1], self.n_classes)),
            labels,
            weights,
            X.shape[1],
            self.n_classes,
            l2=recipe.l2,
            fit_intercept=recipe.fit_intercept,
            unit_rows=recipe.kind.scales_rows,
            head=recipe.parts.sampler.head_of(frequencies, self.audience.number_of),
        )

    def base(self) -> np.ndarray:
        """Scores of a model that knows nothing but how frequent classes are."""
        if not self.recipe.fit_intercept:
            return np.zeros(self.n_classes)
        counts = np.bincount(self.data.labels, self.data.row_weights, self.n_classes)
        return scores_of_frequencies(smoothed(counts), self.recipe.parts.noise)

    def fit(
        self,
        validation: Sample | None,
        start: Start | None,
        before: Before | None = None,
        resume: State | None = None,
    ) -> Outcome:
        task = self
        if self.space is not None:
            audience = replace(self.audience, space=self.space)
            task = replace(self, data=self.data.turned(self.space), audience=audience)
            validation = validation and validation.turned(self.space)
        fit = Fit(task.recipe, task.problem(), validation, task.random_state, task.audience, before)
        outcome = fit.run(start, resume=resume)
        if self.space is not None:
            outcome.weights = self.space.turned_back(outcome.weights)
        return outcome

    def refit(self, start: Start | None, first: Outcome, before: Before) -> Outcome:
        """All rows, for as many epochs as were best on those that were held out."""
        recipe = replace(self.recipe, early_stopping=False, stop=Never)
        if self.recipe.early_stopping:
            recipe = replace(recipe, max_epochs=max(first.best_epoch, 1))
        outcome = replace(self, recipe=recipe).fit(None, start, before)
        rows = [*first.history, *outcome.history]
        outcome.history = History(rows, None, first.history.forecast_seconds)
        return outcome

    def holding_out(self) -> tuple[Task, Sample | None]:
        """The task without some rows, and those; or one that does without them."""
        recipe = self.recipe
        fraction = recipe.validation_fraction
        if fraction is None:
            n = self.data.n_rows
            counts = np.bincount(self.data.labels)
            rare = max(n - counts.max(), 1) / n  # rows that are not of the most frequent class
            most = max(MOST_HELD_OUT, int(LEAST_HELD_OUT / rare))
            most = min(most, most_rows_scored(self.n_classes))
            wanted = min(max(n // HELD_OUT_PART, min(n // 5, LEAST_HELD_OUT)), most)
            fraction = max(wanted, 1) / n
            if self.kinds is not None and self.kinds.depend:
                fraction = max(fraction, min(0.2, LEAST_GROUPS_HELD_OUT / self.kinds.n_kinds))
        remedy = "give X_val and y_val or set early_stopping=False"
        try:
            if recipe.window is not None:
                n_held = min(round(fraction * self.data.n_rows), recipe.window)
                kept, held = hold_out_last(self.data, self.n_classes, n_held, remedy)
            else:
                kept, held = hold_out(
                    self.data, self.n_classes, fraction, self.random_state, remedy, self.kinds
                )
        except ValueError:
            if recipe.must_hold_out:
                raise
            return replace(self, recipe=recipe.without_held_out_rows()), None
        return replace(self, data=kept, kinds=None), held

    def at_best_rate(self, validation: Sample | None) -> tuple[Task, Before]:
        """The task with the rate that short trials found, and what they took."""
        held_out = validation or self.data.take(np.arange(0))
        recipe, report = search_rate(
            self.recipe,
            self.data,
            held_out,
            self.problem(),
            self.random_state,
            self.audience.keeper,
        )
        compiled = report["compile_seconds"]
        before = Before(seconds=report["seconds"] - compiled, compile_seconds=compiled)
        noted = recipe.noting(learning_rate=recipe.parts.solver.rate, rate_search=report)
        return replace(self, recipe=noted), before
