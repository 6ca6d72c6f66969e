"""A record that only moves the end of the log."""

from penstock.wire.definition import Message


class NoOpRecord(Message, key=20, versions="0", flexible_from=0):
    """Nothing."""
