"""From an estimator's parameters to a recipe: as they are, or chosen from the data."""
