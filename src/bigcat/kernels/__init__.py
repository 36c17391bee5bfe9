"""The compiled entry points, one idea a file: what Python calls with arrays and tags."""
