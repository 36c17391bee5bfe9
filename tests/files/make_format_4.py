"""Wrote the model files of format 4 beside it, with the first version that wrote that format.

    PYTHONPATH=CHECKOUT/src python tests/files/make_format_4.py tests/files/format-4

They are not made again: a new version of bigcat has to read them as they are, which
`tests/test_old_files.py` checks.  New in format 4 are digests, so that the models are those of
format 3.
"""

from __future__ import annotations

import sys
from pathlib import Path

from make_format_3 import main

if __name__ == "__main__":
    main(Path(sys.argv[1]))
