"""Simulated applications that work in transactions, what they are told, and who watches them."""
