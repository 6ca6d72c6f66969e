"""A cluster of real nodes with many partitions: what its metadata takes, and what a loss costs."""
