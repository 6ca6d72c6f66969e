"""Words everyone shares: identities, offsets, sequences, errors, limits and settings."""
