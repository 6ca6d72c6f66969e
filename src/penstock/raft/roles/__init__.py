"""What a replica is at a time: one file per role, its data and what it may grant."""
