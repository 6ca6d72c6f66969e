"""How far readers may see: the high watermark and the last stable offset.

    start offset <= last stable offset <= high watermark <= end offset

The high watermark is the offset up to which every in-sync replica has the log; it never goes back
while a leader leads. Where acks wait for fsync it also stops at the bytes that are synced, so
that nobody sees what a power loss could take. The last stable offset is the first offset of the
oldest open transaction, or the high watermark.
"""

from collections.abc import Iterable

from penstock.model.offset import Offset


def advance_high_watermark(
    current: Offset,
    *,
    end_offset: Offset,
    synced_offset: Offset | None,
    follower_ends: Iterable[Offset],
) -> Offset:
    """The high watermark after a change; `follower_ends` are of the in-sync followers alone.

    `synced_offset` is None where acks do not wait for fsync.
    """
    assert current <= end_offset, (current, end_offset)
    assert synced_offset is None or synced_offset <= end_offset, (synced_offset, end_offset)
    reached = min(follower_ends, default=end_offset)
    if synced_offset is not None and synced_offset < reached:
        reached = synced_offset
    # A follower can be ahead of a leader that was cut back; what we lack we cannot show.
    return max(current, min(reached, end_offset))


def last_stable_offset(*, high_watermark: Offset, first_unstable_offset: Offset | None) -> Offset:
    """Where a `read_committed` reader must stop."""
    if first_unstable_offset is None or first_unstable_offset > high_watermark:
        return high_watermark
    return first_unstable_offset
