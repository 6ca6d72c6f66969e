"""Which brokers clients are told of: a broker that was fenced is listed for a session's length."""

from dataclasses import replace

from penstock.broker.request.listed_brokers import ListedBrokers
from penstock.metadata.image.broker import BrokerImage
from penstock.metadata.image.image import Delta, Image
from penstock.model.identity import NodeId

NODE = NodeId(2)
UNFENCED = BrokerImage(
    node_id=NODE, epoch=1, incarnation=bytes(16), rack=None, endpoints=(), fenced=False
)
FENCED = replace(UNFENCED, fenced=True)
AGAIN = replace(FENCED, epoch=9)  # registered by another process, not caught up yet
SESSION_MS = 9_000


class Told:
    """A node, as the metadata change one broker."""

    def __init__(self) -> None:
        self.listed = ListedBrokers(session_ms=SESSION_MS)
        self.image = Image()

    def becomes(self, broker: BrokerImage | None, *, now_ms: int) -> None:
        after = replace(self.image, brokers={} if broker is None else {NODE: broker})
        self.listed.note(Delta(brokers_changed=(NODE,)), self.image, after, now_ms=now_ms)
        self.image = after

    def is_listed(self, now_ms: int) -> bool:
        return self.listed.has(self.image.brokers[NODE], now_ms=now_ms)


def test_a_broker_is_listed_for_a_session_after_it_was_fenced() -> None:
    told = Told()
    told.becomes(UNFENCED, now_ms=0)
    told.becomes(FENCED, now_ms=100)
    assert told.is_listed(100) and told.is_listed(100 + SESSION_MS - 1)
    assert not told.is_listed(100 + SESSION_MS)


def test_a_broker_that_is_restarted_within_its_session_is_listed_throughout() -> None:
    told = Told()
    told.becomes(UNFENCED, now_ms=0)
    told.becomes(FENCED, now_ms=100)
    told.becomes(AGAIN, now_ms=1_000)
    assert told.is_listed(1_000) and told.is_listed(100 + SESSION_MS - 1)
    told.becomes(replace(AGAIN, fenced=False), now_ms=1_100)
    assert told.is_listed(10 * SESSION_MS)


def test_a_broker_that_was_never_unfenced_is_not_listed() -> None:
    told = Told()
    told.becomes(FENCED, now_ms=0)
    assert not told.is_listed(0)


def test_a_broker_that_was_unregistered_is_forgotten() -> None:
    told = Told()
    told.becomes(UNFENCED, now_ms=0)
    told.becomes(FENCED, now_ms=100)
    told.becomes(None, now_ms=200)
    told.becomes(FENCED, now_ms=300)
    assert not told.is_listed(300)
