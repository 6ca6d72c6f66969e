"""What a run of the quorum may find wrong."""


class Violation(Exception):
    """A promise of the quorum was broken; the text says which one, and how."""
