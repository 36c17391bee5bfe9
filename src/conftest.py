"""Examples in docstrings run where the extra that they need is installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["bigcat/torch/*"]
