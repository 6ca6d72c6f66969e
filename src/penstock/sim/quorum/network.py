"""The network of one seed: how long messages take, which are lost, and who is cut off from whom."""

from penstock.model.identity import NodeId
from penstock.raft.messages import Request
from penstock.sim.quorum.process import Process
from penstock.sim.quorum.timeline import Timeline


class Call:
    """A request under way: delivered at most twice, answered at most once."""

    __slots__ = ("done", "number", "request", "sender", "to")

    def __init__(self, sender: Process, to: NodeId, number: int, request: Request) -> None:
        self.sender = sender
        self.to = to
        self.number = number
        self.request = request
        self.done = False


class Network:
    """Its properties are drawn once for a seed. When it is calm, nothing is lost."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        draw = timeline.random
        self.latency_ms: int = draw.choice((2, 5, 20, 60, 150))
        self._steady = draw.random() < 0.4  # all messages take about the same time
        self._loss: float = draw.choice((0.0, 0.01, 0.05, 0.2))
        self.cut: set[tuple[NodeId, NodeId]] = set()  # from the one to the other
        self.is_calm = False

    def arrives(self, sender: NodeId, receiver: NodeId) -> bool:
        if self.is_cut(sender, receiver):
            return False
        return self.is_calm or self._timeline.random.random() >= self._loss

    def is_cut(self, sender: NodeId, receiver: NodeId) -> bool:
        return (sender, receiver) in self.cut

    def delay_ms(self) -> int:
        if self._steady:
            return self.latency_ms - self._timeline.below(self.latency_ms // 10 + 1)
        return 1 + self._timeline.below(self.latency_ms)
