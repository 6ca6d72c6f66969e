"""From committed metadata records to images: how every node follows the cluster's metadata."""

from collections.abc import Iterable

from penstock.metadata.image.draft import Draft
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.records import MetadataRecord
from penstock.model.offset import LeaderEpoch, Offset


class Loader:
    """Holds the latest image; each `load` replaces it and returns what changed."""

    def __init__(self) -> None:
        self.image = Image()

    def load(
        self, records: Iterable[MetadataRecord], *, next_offset: Offset, epoch: LeaderEpoch
    ) -> tuple[Delta, Image]:
        """Follows records in the order of the log; `next_offset` is the one after them."""
        draft = Draft(self.image)
        for record in records:
            draft.apply(record)
        delta, self.image = draft.finish(offset=next_offset, epoch=epoch)
        return delta, self.image
