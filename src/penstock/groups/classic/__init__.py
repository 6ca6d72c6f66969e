"""Classic groups: the members assign among themselves, in generations that all join anew."""
