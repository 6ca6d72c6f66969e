"""Consumer groups and the offsets they commit: the rules of the group coordinator."""
