"""Traces of batches: which are traced, to which trace they belong, and their spans as values."""
