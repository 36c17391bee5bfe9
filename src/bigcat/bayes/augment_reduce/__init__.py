"""The method of augment and reduce: a posterior from sampled rows and classes."""
