"""Files that are damaged in a hundred thousand ways, and saves that are killed."""
