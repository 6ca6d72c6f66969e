"""Who leads what, as lines of the trace: the active controller, and the leaders of partitions.

Seen from outside, at the newest image that any node has, so a line comes up to one inspection late.
"""

from collections.abc import Iterator, Mapping

from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import PartitionImage
from penstock.model.identity import NodeId
from penstock.sim.sim_node import SimNode
from penstock.sim.trace import Trace

WHO = "leaders"
NOBODY = "nobody"
PASSING = ("admin-", "race-", "probe-")  # topics whose first leaders are of no interest


class LeaderNotes:
    def __init__(
        self, nodes: Mapping[str, SimNode], hosts: Mapping[NodeId, str], trace: Trace
    ) -> None:
        self._nodes = nodes
        self._hosts = hosts
        self._trace = trace
        self._image = Image()
        self._controller: tuple[int, str] | None = None  # epoch and machine

    def look(self) -> None:
        newest, controller = self._image, self._controller
        for host, node in self._nodes.items():
            parts = node.parts
            if parts is None:
                continue
            if parts.local.image.offset > newest.offset:
                newest = parts.local.image
            replica = parts.local.quorum.replica
            if replica.leads and (controller is None or controller[0] < replica.epoch):
                controller = replica.epoch, host
        if controller is not None and controller != self._controller:
            self._controller = controller
            epoch, host = controller
            self._trace.remark(WHO, f"controller: {host} is active in epoch {epoch}")
        if newest is not self._image:
            for line in _changes(self._image, newest, self._hosts):
                self._trace.remark(WHO, line)
            self._image = newest


def _changes(before: Image, after: Image, hosts: Mapping[NodeId, str]) -> Iterator[str]:
    """A line for each way that partitions went, with the leader epochs that they have now."""
    moved: dict[tuple[str | None, str], list[str]] = {}
    for name, topic in after.topics_by_name.items():
        known = before.topics_by_name.get(name)
        if known is topic:
            continue
        same = known is not None and known.topic_id == topic.topic_id
        old = known.partitions if known is not None and same else ()
        for index, partition in enumerate(topic.partitions):
            was = _leader(old[index], hosts) if index < len(old) else None
            now = _leader(partition, hosts)
            if was is None and name.startswith(PASSING):
                continue
            if was != now or old[index].leader_epoch != partition.leader_epoch:
                place = f"{name}-{index}@{partition.leader_epoch}"
                moved.setdefault((was, now), []).append(place)
    for (was, now), places in moved.items():
        if was == now:
            yield f"{now} leads in a new epoch: {' '.join(places)}"
        elif was is None:
            yield f"{now} leads: {' '.join(places)}"
        else:
            yield f"from {was} to {now}: {' '.join(places)}"


def _leader(partition: PartitionImage, hosts: Mapping[NodeId, str]) -> str:
    return NOBODY if partition.leader is None else hosts[partition.leader]
