"""Data sets of the benchmarks: real ones by name, synthetic ones, and event logs."""

from benchmarks.datasets import events, synthetic
from benchmarks.datasets.catalogue import available, load

__all__ = ["available", "events", "load", "synthetic"]
