"""Cost and quality of fits on a cluster; ``python -m benchmarks.distributed`` lists commands."""
