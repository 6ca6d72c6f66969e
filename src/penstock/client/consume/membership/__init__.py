"""A consumer's part in a group, without I/O: what to ask next, what an answer means."""
