"""Transactions as each client library has them: producers, members of groups, readers."""
