"""The sink: what is written to topics by Spark is there exactly once."""
