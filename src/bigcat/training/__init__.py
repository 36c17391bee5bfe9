"""From a recipe and data to fitted weights."""
