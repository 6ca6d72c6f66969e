"""The cluster as far as it is committed, as this node's broker is told of it.

What the quorum commits becomes an image. The broker of this process follows it (`publish`), from
the image on that shows its own registration: see `publish_from`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from penstock.broker.controller.metadata_journal import Entry
from penstock.metadata.image.difference import difference
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.loader import Loader
from penstock.metadata.records import LogRecord
from penstock.model.offset import Offset, SnapshotId

Publish = Callable[[Delta, Image], None]


class ImageFeed:
    """`load` what was committed, `install` a snapshot in its place; `change` waits for either."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._loader = Loader()
        self._publish_from: Offset | None = None  # None: the broker is not to be told yet
        self._has_published = False
        self._changes = asyncio.Event()  # replaced when it is set

    @property
    def image(self) -> Image:
        """The cluster as far as it is committed and known here."""
        return self._loader.image

    @property
    def has_published(self) -> bool:
        return self._has_published

    @property
    def next_change(self) -> asyncio.Event:
        """Set when the image, the leader or whether this controller is active has changed."""
        return self._changes

    def start_from(self, records: Iterable[LogRecord], snapshot: SnapshotId) -> None:
        """A start has found these in a snapshot. Nobody is told of them yet."""
        self._loader.load(records, next_offset=snapshot.offset, epoch=snapshot.epoch)

    def publish_from(self, offset: Offset) -> None:
        """Once the image has come so far, the broker is told of it, and of each one after it. An
        earlier one would be too old: what it does not know of looks like left over from a topic
        that was deleted.
        """
        self._publish_from = offset
        self._publish_first()

    def load(self, entries: Sequence[Entry]) -> None:
        """These were committed: the broker follows, if it has begun to."""
        delta, image = self._loader.load(
            chain.from_iterable(entry.records for entry in entries),
            next_offset=entries[-1].next_offset,
            epoch=entries[-1].epoch,
        )
        self._tell(delta, image)

    def install(self, records: Iterable[LogRecord], snapshot: SnapshotId) -> None:
        """A snapshot of the leader took the place of the log: this broker learns what is in it."""
        loader = Loader()
        _, image = loader.load(records, next_offset=snapshot.offset, epoch=snapshot.epoch)
        before, self._loader = self._loader.image, loader
        self._tell(difference(before, image), image)

    def note_change(self) -> None:
        """Of the leader, or whether this controller is active."""
        changes, self._changes = self._changes, asyncio.Event()
        changes.set()

    def _tell(self, delta: Delta, image: Image) -> None:
        """A new image: the broker follows it, if it has begun to."""
        if self._has_published:
            self._publish(delta, image)
        else:
            self._publish_first()
        self.note_change()

    def _publish_first(self) -> None:
        """All that is known is new to the broker, that of a snapshot too."""
        if self._has_published or self._publish_from is None:
            return
        if self.image.offset >= self._publish_from and self.image.offset > 0:
            self._has_published = True
            self._publish(difference(Image(), self.image), self.image)
            self.note_change()
