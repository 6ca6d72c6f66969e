"""How a replicated state machine runs: decide, append, apply, reply."""
