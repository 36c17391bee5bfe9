"""``python -m bigcat``: the same as the command ``bigcat``."""

import sys

from bigcat.cli import main

sys.exit(main())
