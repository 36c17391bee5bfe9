"""Ways through the rows: one by one, in batches that share classes, over all classes."""
