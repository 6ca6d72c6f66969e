"""From committed metadata records to images: how every node follows the cluster's metadata."""

from collections.abc import Iterable

from penstock.metadata.framing import FrameReader
from penstock.metadata.image.draft import Draft
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.records import LogRecord, MetadataRecord
from penstock.model.offset import LeaderEpoch, Offset

NOTHING_CHANGED = Delta()


class Loader:
    """Holds the latest image; each `load` replaces it and returns what changed.

    What ends inside a frame is held back, with all that came in the same step before it, until the
    frame has ended: so an image always stands for exactly the records below its offset.
    """

    def __init__(self, image: Image | None = None) -> None:
        self.image = Image() if image is None else image
        self._frames = FrameReader()
        self._held: list[MetadataRecord] = []

    @property
    def in_frame(self) -> bool:
        return self._frames.is_open

    def load(
        self, records: Iterable[LogRecord], *, next_offset: Offset, epoch: LeaderEpoch
    ) -> tuple[Delta, Image]:
        """Follows records in the order of the log; `next_offset` is the one after them."""
        self._held.extend(self._frames.read(records))
        if self._frames.is_open:
            return NOTHING_CHANGED, self.image
        draft = Draft(self.image)
        for record in self._held:
            draft.apply(record)
        self._held = []
        delta, self.image = draft.finish(offset=next_offset, epoch=epoch)
        return delta, self.image
