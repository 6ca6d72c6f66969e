"""A request for markers that its sender has replaced by a later one writes nothing more."""

from penstock.metadata.image.broker import BrokerImage
from penstock.model.identity import NodeId
from penstock.transactions.marker_senders import MarkerSenders, Sender

NODE = NodeId(2)
EPOCH = 40
REGISTERED = BrokerImage(
    node_id=NODE, epoch=EPOCH, incarnation=bytes(16), rack=None, endpoints=(), fenced=False
)


def sender(number: int, *, epoch: int = EPOCH, node: NodeId = NODE) -> Sender:
    return Sender(node_id=node, broker_epoch=epoch, request_number=number)


def test_the_latest_request_counts_in_whatever_order_they_are_read() -> None:
    senders = MarkerSenders()
    senders.note(sender(1), REGISTERED)
    assert senders.is_latest(sender(1))
    senders.note(sender(2), REGISTERED)
    assert not senders.is_latest(sender(1))
    senders.note(sender(1), REGISTERED)  # its connection is older, and read late
    assert not senders.is_latest(sender(1))
    assert senders.is_latest(sender(2))


def test_nodes_do_not_replace_each_others_requests() -> None:
    senders = MarkerSenders()
    senders.note(sender(9), REGISTERED)
    senders.note(sender(1, node=NodeId(3)), REGISTERED)
    assert senders.is_latest(sender(9))
    assert senders.is_latest(sender(1, node=NodeId(3)))


def test_numbers_begin_anew_with_each_registration() -> None:
    senders = MarkerSenders()
    senders.note(sender(100, epoch=EPOCH - 1), REGISTERED)
    assert not senders.is_latest(sender(100, epoch=EPOCH - 1)), "a process that has ended"
    senders.note(sender(1), REGISTERED)
    assert senders.is_latest(sender(1))


def test_who_is_not_registered_is_not_remembered() -> None:
    """A process that makes up node ids or epochs must not fill the memory, nor block a node."""
    senders = MarkerSenders()
    senders.note(sender(1), None)
    senders.note(sender(1, epoch=EPOCH + 1), REGISTERED)
    assert not senders.is_latest(sender(1))
    assert not senders.is_latest(sender(1, epoch=EPOCH + 1))
    senders.note(sender(1), REGISTERED)
    assert senders.is_latest(sender(1))
