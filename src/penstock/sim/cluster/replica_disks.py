"""Whether the replicas of a partition are equal, byte for byte, as their disks have them.

Files are read here without the node: what it has in memory does not count. Compared is what all of
them have and know to be committed.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from penstock.log.layout import LOG
from penstock.model.identity import TopicPartition
from penstock.records.batch import BatchView, whole_batches
from penstock.records.iterate import records_of
from penstock.sim.errors import Violation
from penstock.sim.file_system import Content, Folder
from penstock.sim.sim_node import DIRECTORY, SimNode


def judge_replicas(place: TopicPartition, replicas: Mapping[str, SimNode], *, until: int) -> None:
    """`replicas` by machine; `until` is the least of their high watermarks."""
    found = {name: _by_offset(node, name, place, until=until) for name, node in replicas.items()}
    begin = max((min(batches, default=until) for batches in found.values()), default=until)
    names = list(found)
    for one, other in pairwise(names):
        for offset in sorted({*found[one], *found[other]}):
            if offset >= begin and found[one].get(offset) != found[other].get(offset):
                raise Violation(
                    "replicas", f"{place} is not the same on {one} and on {other} at offset"
                    f" {offset}, below the high watermark {until}",
                )  # fmt: skip


def judge_copies(
    place: TopicPartition, replicas: Mapping[str, SimNode], records: Mapping[int, bytes]
) -> None:
    """One replica is damaged: `replicas` are the others, and one of them has each record."""
    found: dict[int, bytes] = {}
    for name, node in replicas.items():
        for batch in _batches(node, name, place):
            if not batch.checksum_matches():
                raise Violation(
                    "replicas", f"{name} has damaged records at offset {batch.base_offset} of"
                    f" {place}, from another replica",
                )  # fmt: skip
            found.update(
                (record.offset, bytes(record.value or b"")) for record in records_of(batch)
            )
    for offset, value in records.items():
        if found.get(offset) != value:
            raise Violation(
                "lost records", f"{place} has {found.get(offset)!r} at {offset} on all disks but"
                f" the damaged one, where {value!r} was acked or read",
            )  # fmt: skip


def _by_offset(node: SimNode, name: str, place: TopicPartition, *, until: int) -> dict[int, bytes]:
    return {
        int(batch.base_offset): bytes(batch.view)
        for batch in _batches(node, name, place)
        if batch.next_offset <= until
    }


def _batches(node: SimNode, name: str, place: TopicPartition) -> Iterator[BatchView]:
    folder = node.host.file_system.find(f"{DIRECTORY}/{name}/{place}")
    if not isinstance(folder, Folder):
        raise Violation("replicas", f"{name} has no directory of {place}")
    for file in sorted(folder.entries):
        content = folder.entries[file]
        if file.endswith(LOG) and isinstance(content, Content):
            yield from whole_batches(memoryview(bytes(content.data)))
