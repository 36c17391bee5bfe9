"""Independent binary regressions, one for each class."""
