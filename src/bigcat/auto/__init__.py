"""From an estimator's parameters to a recipe: as they are, or chosen from the data."""

from __future__ import annotations

from bigcat.auto.named import named_recipe
from bigcat.auto.parameters import Parameters
from bigcat.auto.policy import chosen_recipe, chosen_recipe_for_stream
from bigcat.combinations import check_parts_for_rows
from bigcat.rows import Sizes
from bigcat.training.recipe import Recipe

__all__ = ["Parameters", "recipe_for", "recipe_for_stream"]


def recipe_for(parameters: Parameters, sizes: Sizes) -> Recipe:
    """The recipe of a fit to data of these sizes, checked against them."""
    chooses = parameters.method is None
    recipe = chosen_recipe(parameters, sizes) if chooses else named_recipe(parameters)
    check_parts_for_rows(recipe.parts, sizes.sparse)
    return recipe


def recipe_for_stream(parameters: Parameters, sizes: Sizes) -> Recipe:
    """The recipe of a pass of which it is not known how many more will come."""
    chooses = parameters.method is None
    recipe = chosen_recipe_for_stream(parameters, sizes) if chooses else named_recipe(parameters)
    check_parts_for_rows(recipe.parts, sizes.sparse)
    return recipe.with_solver(recipe.parts.solver.at_constant_rate())
