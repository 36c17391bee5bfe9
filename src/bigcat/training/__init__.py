"""Fits of linear models: plans, passes, stacking and refits."""
