"""The compiled entry points, one idea a file: what Python calls with arrays and tags."""

from bigcat.compile.cache import source_hash

#: The version of all compiled code: other sources give other bits.
VERSION = source_hash()[:12]
