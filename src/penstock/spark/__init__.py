"""Penstock and Spark: topics as data frames, and data frames into topics exactly once."""
