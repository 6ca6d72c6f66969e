"""What a member of a group has read is committed with what it wrote, if it still is a member."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.transactional.interface import GroupWentOn, TransactionalClient, take
from rig.transactional.looking import committed_offset, read

NUMBERS = itertools.count(1)
ORDERS = [b"%d" % number for number in range(6)]
Topic = Callable[[], str]

# Which client knows which group protocol; aiokafka tells of a group, but not of its member.
MEMBERS = [
    ("confluent-kafka", "classic"),
    ("confluent-kafka", "consumer"),
    ("kafka-python", "classic"),
    ("java", "classic"),
    ("java", "consumer"),
]
NAMELESS = ("aiokafka", "classic")


@pytest.fixture
def new_topic(group_bootstrap: str) -> Iterator[Topic]:
    with closing(ConfluentClient(group_bootstrap)) as admin:

        def create() -> str:
            name = f"members-{next(NUMBERS)}"
            admin.create_topic(name, partitions=1)
            return name

        yield create


@pytest.fixture
def orders(group_bootstrap: str, new_topic: Topic) -> str:
    name = new_topic()
    with closing(ConfluentClient(group_bootstrap)) as shop:
        shop.produce(name, [Message(value=order, partition=0) for order in ORDERS])
    return name


@pytest.mark.parametrize(
    ("transactions", "protocol"), [*MEMBERS, NAMELESS], indirect=["transactions"]
)
def test_a_member_goes_on_where_the_last_committed_transaction_ended(
    transactions: TransactionalClient,
    protocol: str,
    group_bootstrap: str,
    orders: str,
    new_topic: Topic,
) -> None:
    invoices, group = new_topic(), f"members-{next(NUMBERS)}"
    producer = transactions.producer(group_bootstrap, group)
    # The first attempt is aborted: whoever comes next reads the same again.
    for commits in (False, True):
        with closing(
            transactions.member(group_bootstrap, orders, group=group, protocol=protocol)
        ) as member:
            read_now = take(member, len(ORDERS))
            assert read_now == ORDERS
            producer.begin()
            for order in read_now:
                producer.send(invoices, b"for " + order)
            producer.send_offsets_of(member)
            if commits:
                producer.commit()
            else:
                producer.abort()
    producer.close()
    assert committed_offset(group_bootstrap, group, orders) == len(ORDERS)
    assert read(group_bootstrap, invoices) == [b"for " + order for order in ORDERS]


@pytest.mark.parametrize(("transactions", "protocol"), MEMBERS, indirect=["transactions"])
def test_who_is_no_member_any_more_cannot_commit_its_offsets(
    transactions: TransactionalClient,
    protocol: str,
    group_bootstrap: str,
    orders: str,
    new_topic: Topic,
) -> None:
    invoices, group = new_topic(), f"members-{next(NUMBERS)}"
    producer = transactions.producer(group_bootstrap, group)
    gone = transactions.member(group_bootstrap, orders, group=group, protocol=protocol)
    take(gone, len(ORDERS))
    gone.close()
    # Another member, so that the group is not empty.
    with closing(
        transactions.member(group_bootstrap, orders, group=group, protocol=protocol)
    ) as member:
        take(member, len(ORDERS))
        producer.begin()
        producer.send(invoices, b"twice")
        with pytest.raises(GroupWentOn):
            producer.send_offsets_of(gone)
        producer.abort()
        producer.begin()
        producer.send(invoices, b"once")
        producer.send_offsets_of(member)
        producer.commit()
    producer.close()
    assert committed_offset(group_bootstrap, group, orders) == len(ORDERS)
    assert read(group_bootstrap, invoices) == [b"once"]
