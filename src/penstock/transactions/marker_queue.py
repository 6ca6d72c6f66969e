"""Markers that other nodes write: to which node, in which request, and when they are tried again.

The shell adds markers, sends what `take` returns, and says what became of it. Where a partition
lives is read from this node's own image each time (`route`), never from what a node answers.

Rules:
1. One request per node is outstanding. Markers that come meanwhile gather for the next one.
2. No two requests that concern one partition are outstanding, also to different nodes. When the
   leader has moved to another node, the reply of the former one does not count any more.
3. A marker is finished when it is committed, when the partition knows a later epoch of the
   producer, or when this node's image no longer has the partition. A node that does not know the
   partition may be behind: its answer finishes nothing.
4. A partition without a leader waits until it has one.
5. What is refused is tried again after a pause that grows, and at once when the leader changes. So
   is a node that does not answer.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from enum import Enum, auto
from typing import Generic, NamedTuple, TypeVar

from penstock.machine.deadlines import Deadlines
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, ProducerId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import MARKERS_PER_REQUEST_MAX
from penstock.model.offset import LeaderEpoch
from penstock.transactions.markers import SendMarkers

PAUSE_MS, PAUSE_MS_MAX = 100, 5_000
LASTING_MS = 800  # a pause so long says that a refusal is not one of metadata on its way
# The transaction is over in that partition.
FINISHED = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)

Owner = TypeVar("Owner")


class Leader(NamedTuple):
    node_id: NodeId
    epoch: LeaderEpoch


class Unled(Enum):
    """Why nobody leads a partition."""

    NO_LEADER = auto()  # for now
    DELETED = auto()


Route = Leader | Unled


class MarkerKey(NamedTuple):
    """What a reply names. A producer has one transaction at a time."""

    producer_id: ProducerId
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMarker(Generic[Owner]):
    owner: Owner
    markers: SendMarkers
    partition: TopicPartition

    @property
    def key(self) -> MarkerKey:
        return MarkerKey(self.markers.producer_id, self.partition)


class SentMarker(NamedTuple, Generic[Owner]):
    """A marker, and the epoch of the leader that it is meant for."""

    queued: QueuedMarker[Owner]
    leader_epoch: LeaderEpoch


class RefusedMarker(NamedTuple, Generic[Owner]):
    """`lasts`: its partition has refused markers for a while."""

    queued: QueuedMarker[Owner]
    code: ErrorCode
    lasts: bool


@dataclass(slots=True, kw_only=True)
class _Partition(Generic[Owner]):
    """The markers of one partition."""

    waiting: dict[ProducerId, QueuedMarker[Owner]] = field(default_factory=dict)
    sent: dict[ProducerId, QueuedMarker[Owner]] = field(default_factory=dict)
    sent_to: Leader | None = None  # of `sent`, and of the pause
    pause_ms: int = 0  # the last one


class MarkerQueue(Generic[Owner]):
    """See the module. `finished` and `returned` are for the shell to empty: markers that need no
    further try, and those of partitions that this node leads itself now.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        route: Callable[[TopicPartition], Route],
        is_wanted: Callable[[Owner], bool],
    ) -> None:
        self.finished: list[QueuedMarker[Owner]] = []
        self.returned: list[QueuedMarker[Owner]] = []
        self._node_id = node_id
        self._route = route
        self._is_wanted = is_wanted
        self._partitions: dict[TopicPartition, _Partition[Owner]] = {}
        self._ready: dict[NodeId, dict[TopicPartition, None]] = {}
        self._outstanding: dict[NodeId, tuple[SentMarker[Owner], ...]] = {}
        self._node_pause_ms: dict[NodeId, int] = {}  # the last one, of nodes that do not answer
        self._pauses: Deadlines[TopicPartition | NodeId] = Deadlines()

    def __len__(self) -> int:
        """How many markers are not written yet."""
        return sum(len(one.waiting) + len(one.sent) for one in self._partitions.values())

    def next_ms(self) -> int | None:
        """When the next pause ends."""
        return self._pauses.next_ms()

    def check(self) -> None:
        on_their_way = {name for name, one in self._partitions.items() if one.sent}
        for name, one in self._partitions.items():
            assert one.waiting or one.sent, name
            assert (one.sent_to is not None) or not one.sent, name
        for node_id, names in self._ready.items():
            for name in names:
                assert name not in on_their_way, (node_id, name)  # rule 2
                assert self._partitions[name].waiting, name
                assert self._pauses.at(name) is None, name
        for name in on_their_way:
            sent_to = self._partitions[name].sent_to
            assert sent_to is not None
            assert sent_to.node_id in self._outstanding, name  # rule 1

    def add(self, queued: QueuedMarker[Owner]) -> None:
        """A marker of the same producer that still waits is one of an earlier coordinator."""
        one = self._partitions.setdefault(queued.partition, _Partition())
        one.waiting[queued.markers.producer_id] = queued
        self._place(queued.partition)

    def take(self) -> dict[NodeId, tuple[SentMarker[Owner], ...]]:
        """The requests that can be sent now; each is outstanding until `answered` or `failed`."""
        requests = {}
        for node_id in list(self._ready):
            if node_id in self._outstanding or self._pauses.at(node_id) is not None:
                continue
            request = tuple(self._take_for(node_id))
            if request:
                requests[node_id] = self._outstanding[node_id] = request
        return requests

    def answered(
        self, node_id: NodeId, codes: Mapping[MarkerKey, ErrorCode], *, now_ms: int
    ) -> list[RefusedMarker[Owner]]:
        """What a node replied. Returns the markers that it refused and that are tried again."""
        self._node_pause_ms.pop(node_id, None)
        all_refused: list[RefusedMarker[Owner]] = []
        for name, sent in self._take_back(node_id).items():
            one = self._partitions[name]
            refused = []
            lasts = one.pause_ms >= LASTING_MS
            for queued in sent:
                code = codes.get(queued.key, ErrorCode.UNKNOWN_SERVER_ERROR)
                if code in FINISHED:
                    self.finished.append(queued)
                else:
                    one.waiting.setdefault(queued.markers.producer_id, queued)
                    refused.append(RefusedMarker(queued, code, lasts))
            if not refused:
                one.pause_ms = 0
            elif self._route(name) == one.sent_to:
                one.pause_ms = _longer(one.pause_ms)
                self._pauses.set(name, now_ms + one.pause_ms)
            self._place(name)
            all_refused += refused
        return all_refused

    def failed(self, node_id: NodeId, *, now_ms: int) -> bool:
        """There was no answer. Returns whether that is new: there was one the last time."""
        was_silent = node_id in self._node_pause_ms
        pause_ms = _longer(self._node_pause_ms.get(node_id, 0))
        self._node_pause_ms[node_id] = pause_ms
        self._pauses.set(node_id, now_ms + pause_ms)
        for name, sent in self._take_back(node_id).items():
            waiting = self._partitions[name].waiting
            for queued in sent:
                waiting.setdefault(queued.markers.producer_id, queued)
            self._place(name)
        return not was_silent

    def leaders_changed(self, topics: Collection[str]) -> None:
        """These topics changed in the image, or were deleted."""
        for name in [name for name in self._partitions if name.topic in topics]:
            one, route = self._partitions[name], self._route(name)
            if route != one.sent_to:
                self._pauses.cancel(name)
                one.pause_ms = 0
            if one.sent and not _same_node(route, one.sent_to):
                # Rule 2: from here on the reply does not concern this partition.
                for producer_id, queued in one.sent.items():
                    one.waiting.setdefault(producer_id, queued)
                one.sent = {}
            self._place(name)

    def node_changed(self, node_id: NodeId) -> None:
        """The node was registered again or unfenced: it may answer now."""
        self._pauses.cancel(node_id)

    def resume(self, *, now_ms: int) -> None:
        """Ends the pauses whose time is over."""
        while (due := self._pauses.due(now_ms)) is not None:
            self._pauses.cancel(due)
            if isinstance(due, tuple):
                self._place(due)

    def forget_unwanted(self) -> None:
        """Coordinators have ended: others send their markers."""
        for name in list(self._partitions):
            self._place(name)

    def _take_for(self, node_id: NodeId) -> list[SentMarker[Owner]]:
        request: list[SentMarker[Owner]] = []
        for name in list(self._ready[node_id]):
            room = MARKERS_PER_REQUEST_MAX - len(request)
            if room <= 0:
                break
            self._place(name)  # the leader may have changed, and so may what is wanted
            route = self._route(name)
            if name not in self._ready.get(node_id, ()) or not isinstance(route, Leader):
                continue
            one = self._partitions[name]
            waiting = list(one.waiting.items())
            one.sent, one.waiting, one.sent_to = dict(waiting[:room]), dict(waiting[room:]), route
            request += [SentMarker(queued, route.epoch) for queued in one.sent.values()]
            self._unready(name)
        return request

    def _take_back(self, node_id: NodeId) -> dict[TopicPartition, list[QueuedMarker[Owner]]]:
        """The markers of a request that is no longer outstanding; without those of partitions that
        have moved meanwhile.
        """
        taken: dict[TopicPartition, list[QueuedMarker[Owner]]] = {}
        for queued, epoch in self._outstanding.pop(node_id):
            one = self._partitions.get(queued.partition)
            if one is None or one.sent_to != (node_id, epoch):
                continue
            if one.sent.get(queued.markers.producer_id) is queued:
                taken.setdefault(queued.partition, []).append(queued)
        for name in taken:
            self._partitions[name].sent = {}
        return taken

    def _place(self, name: TopicPartition) -> None:
        """Puts a partition where its state says it belongs."""
        self._unready(name)
        one = self._partitions.get(name)
        if one is None:
            return
        for producer_id in [
            key for key, queued in one.waiting.items() if not self._is_wanted(queued.owner)
        ]:
            del one.waiting[producer_id]
        route = self._route(name)
        if not isinstance(route, Leader):
            if route is Unled.DELETED:
                self.finished += one.waiting.values()
                one.waiting = {}
        elif route.node_id == self._node_id:
            self.returned += one.waiting.values()
            one.waiting = {}
        elif one.waiting and not one.sent and self._pauses.at(name) is None:
            self._ready.setdefault(route.node_id, {})[name] = None
        if not one.waiting and not one.sent:
            del self._partitions[name]
            self._pauses.cancel(name)

    def _unready(self, name: TopicPartition) -> None:
        for node_id, names in list(self._ready.items()):
            if name in names:
                del names[name]
                if not names:
                    del self._ready[node_id]


def _same_node(route: Route, sent_to: Leader | None) -> bool:
    return isinstance(route, Leader) and sent_to is not None and route.node_id == sent_to.node_id


def _longer(pause_ms: int) -> int:
    return min(2 * pause_ms or PAUSE_MS, PAUSE_MS_MAX)
