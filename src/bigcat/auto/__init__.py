"""From an estimator's parameters to a recipe: as they are, or chosen from the data."""

from __future__ import annotations

from bigcat.auto.named import named_recipe
from bigcat.auto.parameters import Parameters
from bigcat.auto.policy import (
    chosen_recipe,
    chosen_recipe_for_rounds,
    chosen_recipe_for_stream,
)
from bigcat.combinations import check_parts_for_rows
from bigcat.rows import Sizes
from bigcat.training.recipe import Recipe
from bigcat.training.rounds import check_recipe, for_rounds
from bigcat.training.streams import for_streams

__all__ = ["Parameters", "recipe_for", "recipe_for_rounds", "recipe_for_stream"]


def recipe_for(parameters: Parameters, sizes: Sizes, window: int | None = None) -> Recipe:
    """The recipe of a fit to data of these sizes, checked against them.

    `window` is the number of rows to visit at a time, where they are mapped to files.
    """
    chooses = parameters.method is None
    recipe = chosen_recipe(parameters, sizes) if chooses else named_recipe(parameters)
    return _checked(recipe, parameters, sizes, window)


def recipe_for_stream(parameters: Parameters, sizes: Sizes, window: int | None = None) -> Recipe:
    """The recipe of a pass of which it is not known how many more will come."""
    chooses = parameters.method is None
    recipe = chosen_recipe_for_stream(parameters, sizes) if chooses else named_recipe(parameters)
    recipe = _checked(recipe, parameters, sizes, window)
    return recipe.with_solver(recipe.parts.solver.at_constant_rate())


def recipe_for_rounds(parameters: Parameters, sizes: Sizes) -> Recipe:
    """The recipe of a fit to rows that several machines hold."""
    chooses = parameters.method is None
    recipe = chosen_recipe_for_rounds(parameters, sizes) if chooses else named_recipe(parameters)
    recipe = for_streams(
        recipe, sizes.n_rows, not parameters.given("sampler"), "rows are on several machines"
    )
    check_parts_for_rows(recipe.parts, sizes.sparse)
    check_recipe(recipe)
    return for_rounds(recipe)


def _checked(recipe: Recipe, parameters: Parameters, sizes: Sizes, window: int | None) -> Recipe:
    # An exact fit that we chose ourselves is one to few rows, however small the window is.
    of_few_rows = not recipe.parts.solver.stochastic and not parameters.given("solver")
    if window is not None and not of_few_rows:
        recipe = for_streams(recipe, window, chosen=not parameters.given("sampler"))
    check_parts_for_rows(recipe.parts, sizes.sparse)
    return recipe
