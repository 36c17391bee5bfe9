"""Commands that give every figure in docs/results.md: ``python -m benchmarks --help``."""
