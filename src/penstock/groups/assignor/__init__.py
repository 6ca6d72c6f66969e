"""How partitions are assigned to members: pure functions, one file per assignor."""
