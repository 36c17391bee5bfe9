"""Models for serving: smaller files, and the best classes without a look at all of them."""

from bigcat.serving.compression import compressed, storage_loss
from bigcat.serving.index import TopKIndex, require_usearch

__all__ = ["TopKIndex", "compressed", "require_usearch", "storage_loss"]
