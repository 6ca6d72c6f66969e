"""How far readers may see: the high watermark and the last stable offset.

    start offset <= last stable offset <= high watermark <= end offset

The high watermark is the offset up to which every in-sync replica has the log; it never goes back
while a leader leads. Where acks wait for a sync, it also does not pass what the leader has synced,
so that no reader sees records that a power loss could remove. The last stable offset is the first
offset of the oldest open transaction, or the high watermark. A transaction is open until its marker
is below the high watermark. If its first records are deleted before that, the last stable offset is
the start offset of the log.
"""

from collections.abc import Iterable

from penstock.model.offset import Offset


def vouched_offset(*, end_offset: Offset, synced_offset: Offset, sync_records: int) -> Offset:
    """The offset up to which the leader's own copy is as durable as `sync_records` requires.

    Fewer unsynced records than that are acceptable; the append that reaches this number waits for a
    sync, and so do later ones. With 1 every append waits.
    """
    assert synced_offset <= end_offset, (synced_offset, end_offset)
    assert sync_records > 0, sync_records
    return end_offset if end_offset - synced_offset < sync_records else synced_offset


def advance_high_watermark(
    current: Offset, *, vouched_offset: Offset, follower_ends: Iterable[Offset]
) -> Offset:
    """The high watermark after a change; `follower_ends` are those that count.

    `vouched_offset` is that of the leader's own copy: the end of its log, or the synced part of it.
    """
    # A follower can be ahead of a leader that was cut back; what we lack we cannot show.
    return max(current, min((vouched_offset, *follower_ends)))


def last_stable_offset(
    *, start_offset: Offset, high_watermark: Offset, first_unstable_offset: Offset | None
) -> Offset:
    """Where a `read_committed` reader must stop."""
    assert start_offset <= high_watermark, (start_offset, high_watermark)
    if first_unstable_offset is None or first_unstable_offset > high_watermark:
        return high_watermark
    return max(start_offset, first_unstable_offset)
