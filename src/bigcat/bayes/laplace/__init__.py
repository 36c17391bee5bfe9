"""The method of Laplace: draws, or a Gaussian around the mode of the model itself."""
