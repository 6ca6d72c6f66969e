"""Transactions: the coordinator's rules and state, one shard per partition of its topic."""
