"""What an operator does to a living cluster, and what its clients see of it."""
