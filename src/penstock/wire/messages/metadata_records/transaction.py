"""A change of several batches that is seen whole or not at all (KIP-868)."""

from penstock.wire.definition import Message, nullable, string, tagged


class BeginTransactionRecord(Message, key=23, versions="0", flexible_from=0):
    name: str | None = tagged(0, nullable(string(), default=None))


class EndTransactionRecord(Message, key=24, versions="0", flexible_from=0):
    """Nothing."""


class AbortTransactionRecord(Message, key=25, versions="0", flexible_from=0):
    reason: str | None = tagged(0, nullable(string(), default=None))
