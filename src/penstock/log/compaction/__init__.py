"""Compaction of one log: of each key the latest value stays. Start reading at `cleaner`."""
