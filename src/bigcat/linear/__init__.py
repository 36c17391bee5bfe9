"""The linear model: its weights, and how it predicts."""
