"""Numbers: special functions, vector exponentials, random numbers, the softmax by blocks."""
