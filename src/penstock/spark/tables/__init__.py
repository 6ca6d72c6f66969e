"""Batches of a stream into tables, each once: `delta.write` and `postgres.upsert`."""
