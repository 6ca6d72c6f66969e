"""What the owner of a log does with each item of a pass (see `cleaner`), one step per item."""

from typing import assert_never

from penstock.log.compaction.cleaner import Cleaned, Finished, PassItem, Step
from penstock.log.partition_log import PartitionLog


def take_up(log: PartitionLog, item: PassItem) -> bool:
    """Carries the item out; False when the log has changed, and the pass must end."""
    if log.is_closed:
        return False
    match item:
        case Cleaned():
            return log.swaps.begin(item.sources, size_bytes=item.size_bytes)
        case Step.SWAP_LASTS:
            return log.swaps.replace()
        case Step.SOURCES_GONE:
            log.swaps.finish()
        case Finished():
            pass
        case _:
            assert_never(item)
    return True
