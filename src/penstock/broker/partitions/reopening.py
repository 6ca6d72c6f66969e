"""Opens the logs again that could not be opened because their disk was full.

The metadata may not change for days, so the broker looks by itself whether there is room by now. A
log that is to be recovered is scanned by each attempt: waits become longer while there is no room.
"""

import asyncio
from collections.abc import Callable

from penstock.broker.partitions.partitions import Partitions
from penstock.metadata.image.image import Delta

WAIT_MS_MIN = 1_000
WAIT_MS_MAX = 10_000


class Reopening:
    """`publish` makes all parts of the broker follow a change of the metadata, `partitions` first.
    It gets the topics as they are: what is offline is opened, the rest stays as it is.
    """

    def __init__(self, *, partitions: Partitions, publish: Callable[[Delta], None]) -> None:
        self._partitions = partitions
        self._publish = publish

    async def keep(self) -> None:
        """Until cancelled."""
        wait_ms = WAIT_MS_MIN
        while True:
            await asyncio.sleep(wait_ms / 1000)
            wait_ms = WAIT_MS_MIN if self.try_again() else min(2 * wait_ms, WAIT_MS_MAX)

    def try_again(self) -> bool:
        """Whether no log lacks room any more."""
        topics = self._partitions.without_room()
        if not topics:
            return True
        self._publish(Delta(topics_changed=topics))
        return not self._partitions.without_room()
