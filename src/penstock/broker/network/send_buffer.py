"""The memory of all replies that peers do not take, bounded over all connections.

A reply may be many megabytes, and a peer that asks and does not read keeps it in memory for as long
as a connection may idle. Each connection alone stops to be read beyond UNSENT_BYTES_MAX; those that
are beyond it are known here, and when together they hold too much, the one that holds most is given
up. To wait instead would let a few peers that do not read stop all others.
"""

from typing import Protocol

from penstock.model import limit


class Holder(Protocol):
    """A connection, as seen from here."""

    @property
    def unsent_bytes(self) -> int: ...

    def give_up(self, reason: str) -> None: ...


class UnsentReplies:
    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._holders: list[Holder] = []

    def note(self, holder: Holder) -> None:
        """`holder` holds more replies than a connection that is read would."""
        held = [one for one in self._holders if one.unsent_bytes >= limit.UNSENT_REPLY_BYTES_MAX]
        self._holders = held if holder in held else [*held, holder]
        total_bytes = sum(one.unsent_bytes for one in self._holders)
        if total_bytes > self.bytes_max:
            most = max(self._holders, key=lambda one: one.unsent_bytes)
            self.forget(most)
            most.give_up(
                f"{most.unsent_bytes} bytes of replies not taken, of {total_bytes} held in all"
            )

    def forget(self, holder: Holder) -> None:
        if holder in self._holders:
            self._holders.remove(holder)
