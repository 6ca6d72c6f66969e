"""What a run of replicas may find wrong."""


class Violation(Exception):
    """A promise of replication was broken; the text says which one, and how."""
