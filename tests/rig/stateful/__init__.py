"""Stateful queries that are killed, what goes into them, and what must come out of them."""
