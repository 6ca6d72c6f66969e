"""Compaction of one log: the latest value of each key is kept. Start reading at `cleaner`."""
