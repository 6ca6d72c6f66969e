"""The offsets that one group asked to be committed for one partition: which of them may stand.

One client commits for the group, one offset at a time, the same one again if need be. What it was
told, or has read, stands until it asks for more. An offset that was asked for without an answer is
unclear: it may stand, or come to stand later, even after a newer one that went by another
connection. It is settled once the node that it went to has ended: it stands by then, or never will.
What is settled is past as soon as a later ack or look tells what stands, and so is what went by the
connection of such an ack before it.
"""

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True, eq=False)
class Unclear:
    offset: int
    connection: object  # by which it went
    settled: bool = False


@dataclass(slots=True, kw_only=True)
class CommitHistory:
    acked: int | None = None  # the last one that was acked or read
    unclear: list[Unclear] = field(default_factory=list)  # any of these may stand, as asked
    earlier: set[int] = field(default_factory=set)  # acked or read, and replaced since
    may_be_missing: bool = True

    def may_be(self, offset: int | None) -> bool:
        if offset is None:
            return self.may_be_missing
        return offset == self.acked or any(asked.offset == offset for asked in self.unclear)

    def ask(self, offset: int, *, connection: object) -> None:
        self.unclear.append(Unclear(offset=offset, connection=connection))

    def ack(self, offset: int) -> None:
        """The last one asked for was taken."""
        asked = next(one for one in reversed(self.unclear) if one.offset == offset)
        self.unclear.remove(asked)
        if not asked.settled:
            # A node decides about the requests of one connection in their order.
            self._forget_past(asked.connection)
        self._stands(offset)

    def look(self, offset: int | None) -> None:
        """It was read by a request that left after the last start of the node."""
        assert self.may_be(offset), offset
        self._forget_past(None)
        if offset is not None:
            self._stands(offset)

    def restarted(self) -> None:
        """No request of before comes through any more."""
        for asked in self.unclear:
            asked.settled = True

    def power_lost(self) -> None:
        """Any state of before may be the one that was synced, at this loss or at the next."""
        if self.acked is not None:
            self.earlier.add(self.acked)
        self.unclear += [
            Unclear(offset=offset, connection=None, settled=True) for offset in sorted(self.earlier)
        ]
        self.acked, self.may_be_missing = None, True

    def _forget_past(self, connection: object) -> None:
        self.unclear = [
            asked
            for asked in self.unclear
            if not asked.settled and asked.connection is not connection
        ]

    def _stands(self, offset: int) -> None:
        if self.acked is not None and self.acked != offset:
            self.earlier.add(self.acked)
        self.acked, self.may_be_missing = offset, False
