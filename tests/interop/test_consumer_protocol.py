"""Groups of real consumers of the consumer protocol (KIP-848), alone and beside classic ones.

Every consumer commits what it has read before it polls again, so a clean hand-over repeats nothing.
Records go on being written all the time.
"""

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions

from rig.apache_kafka.broker import ApacheKafka
from rig.clients.confluent import ConfluentClient
from rig.members.fed_group import FedGroup
from rig.members.kinds import Kind, java_kind, python_kind
from rig.members.member import PATIENCE_SECONDS, GroupMember, GroupOfMembers
from rig.serve import ServedNode
from rig.steady_producer import SteadyProducer

PARTITIONS = 6
NUMBERS = itertools.count(1)
MODERN = {"group_protocol": "consumer"}
CLASSIC = {"session_timeout_ms": "60000", "heartbeat_interval_ms": "200"}
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    # A JVM must be able to start in it on a busy machine: a static member that left may return.
    "group.consumer.session.timeout.ms": "60000",
}
PEER_SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "300",
}


class Case(FedGroup):
    def start(self, kind: Kind, **settings: str) -> GroupMember:
        """One that speaks the consumer protocol, where assignors and sessions are the broker's."""
        return self.group.start(kind.command, **{**MODERN, **settings})

    def start_classic(self, kind: Kind) -> GroupMember:
        return self.group.start(kind.command, **{**CLASSIC, **kind.settings})


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("modern")
    if os.environ.get("PENSTOCK_INTEROP_PEER") == "1":
        jars = request.getfixturevalue("kafka_jars")
        peer = ApacheKafka(jars=jars, folder=folder, settings={**SETTINGS, **PEER_SETTINGS})
        peer.start()
        yield peer.bootstrap
        peer.stop()
        return
    served = ServedNode(data=folder / "node", settings=SETTINGS)
    served.start()
    yield served.bootstrap
    assert served.stop() == 0


@pytest.fixture
def kind_named(request: pytest.FixtureRequest) -> Callable[[str], Kind]:
    def find(name: str) -> Kind:
        if name == "confluent":
            return python_kind("confluent_member", "cooperative-sticky")
        return java_kind("cooperative-sticky", command=request.getfixturevalue("java_command"))

    return find


@pytest.fixture(params=["confluent", "java"])
def kind(request: pytest.FixtureRequest, kind_named: Callable[[str], Kind]) -> Kind:
    return kind_named(request.param)


@pytest.fixture
def case(node: str) -> Iterator[Case]:
    name = f"modern-{next(NUMBERS)}"
    admin = ConfluentClient(node)
    admin.create_topic(name, partitions=PARTITIONS)
    admin.close()
    group = GroupOfMembers(bootstrap=node, topic=name, partitions=PARTITIONS, group=name)
    with SteadyProducer(bootstrap=node, topic=name, partitions=PARTITIONS) as producer:
        yield Case(group, producer)
    group.end()


def test_members_come_and_go_and_every_record_is_read_once(case: Case, kind: Kind) -> None:
    first = case.start(kind)
    case.group.await_shared_by(first)
    second, third = case.start(kind), case.start(kind)
    case.group.await_shared_by(first, second, third)
    first.leave()
    case.group.await_shared_by(second, third)
    third.leave()
    case.group.await_shared_by(second)
    case.stop_writing()
    case.assert_read_once()


def test_a_killed_member_is_replaced_after_the_session_of_its_group(
    case: Case, kind: Kind, node: str
) -> None:
    brief = {"consumer.session.timeout.ms": "2000", "consumer.heartbeat.interval.ms": "200"}
    set_on_group(node, case.group.name, brief)
    first, second = case.start(kind), case.start(kind)
    case.group.await_shared_by(first, second)
    first.kill()
    case.group.await_shared_by(second)
    case.stop_writing()


def test_a_static_member_restarts_without_anybody_noticing(case: Case, kind: Kind) -> None:
    first = case.start(kind, group_instance_id="one")
    second = case.start(kind, group_instance_id="two")
    case.group.await_shared_by(first, second)
    owned, changes = second.owned, first.changes
    second.leave()
    third = case.start(kind, group_instance_id="two")
    case.group.await_that(lambda: third.owned == owned, "it has what it had before")
    case.stop_writing()
    case.assert_read_once()
    assert first.changes == changes


def test_a_member_too_many_is_idle_until_it_is_needed(
    case: Case, kind_named: Callable[[str], Kind]
) -> None:
    kind = kind_named("confluent")
    members = [case.start(kind) for _ in range(PARTITIONS + 1)]
    case.group.await_shared_by(*members, idle=1)
    busy = next(member for member in members if member.owned)
    members.remove(busy)
    busy.leave()
    case.group.await_shared_by(*members)
    case.stop_writing()
    case.assert_read_once()


def test_a_group_is_upgraded_and_downgraded_member_by_member(
    case: Case, kind_named: Callable[[str], Kind]
) -> None:
    java, confluent = kind_named("java"), kind_named("confluent")
    members = [case.start_classic(java), case.start_classic(confluent)]
    case.group.await_shared_by(*members)
    for start in (case.start, case.start_classic):
        for kind in (java, confluent):
            members.append(start(kind))
            case.group.await_shared_by(*members)
            members.pop(0).leave()
            case.group.await_shared_by(*members)
    case.stop_writing()


def test_a_pattern_takes_in_topics_as_they_appear_and_grow(node: str) -> None:
    name = f"pattern-{next(NUMBERS)}"
    admin, tool = ConfluentClient(node), AdminClient({"bootstrap.servers": node})
    admin.create_topic(f"{name}-a", partitions=2)
    admin.create_topic(f"other-{name}-a", partitions=1)
    consumer = modern_consumer(node, name)
    consumer.subscribe([f"^{name}-.*"])
    await_assigned([consumer], {(f"{name}-a", 0), (f"{name}-a", 1)})
    admin.create_topic(f"{name}-b", partitions=1)
    await_assigned([consumer], {(f"{name}-a", 0), (f"{name}-a", 1), (f"{name}-b", 0)})
    for future in tool.create_partitions([NewPartitions(f"{name}-b", 2)]).values():
        future.result()
    everything = {(f"{name}-{topic}", number) for topic in "ab" for number in range(2)}
    await_assigned([consumer], everything)
    consumer.close()
    admin.close()


def test_a_storm_of_rebalances_ends_complete_and_disjoint(node: str) -> None:
    name, dice = f"storm-{next(NUMBERS)}", random.Random(848)
    admin = ConfluentClient(node)
    admin.create_topic(name, partitions=12)
    admin.close()
    consumers: list[Consumer] = []
    for _ in range(40):
        if len(consumers) < 2 or (len(consumers) < 8 and dice.random() < 0.5):
            consumer = modern_consumer(node, name)
            consumer.subscribe([name])
            consumers.append(consumer)
        else:
            consumers.pop(dice.randrange(len(consumers))).close()
        for _ in range(dice.randrange(10)):
            for consumer in consumers:
                consumer.poll(0.01)
    await_assigned(consumers, {(name, number) for number in range(12)})
    for consumer in consumers:
        consumer.close()


def test_a_rolling_restart_of_static_members_causes_no_rebalance(node: str) -> None:
    name, moved = f"rolling-{next(NUMBERS)}", list[str]()
    admin = ConfluentClient(node)
    admin.create_topic(name, partitions=10)
    admin.close()

    def start(instance: str) -> Consumer:
        def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if instance not in closing:
                moved.append(instance)

        consumer = modern_consumer(node, name, **{"group.instance.id": instance})
        consumer.subscribe([name], on_revoke=revoked)
        return consumer

    closing: set[str] = set()
    instances = [f"i{number}" for number in range(10)]
    consumers = {instance: start(instance) for instance in instances}
    everything = {(name, number) for number in range(10)}
    await_assigned(list(consumers.values()), everything)
    moved.clear()
    for instance in instances:
        owned = consumers[instance].assignment()
        closing.add(instance)
        consumers[instance].close()
        closing.remove(instance)
        consumers[instance] = start(instance)
        await_assigned(list(consumers.values()), everything)
        assert consumers[instance].assignment() == owned
    assert not moved
    closing.update(instances)
    for consumer in consumers.values():
        consumer.close()


def set_on_group(bootstrap: str, group: str, settings: dict[str, str]) -> None:
    changes = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=changes)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result()


def modern_consumer(bootstrap: str, group: str, **settings: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            **settings,
        }
    )


def await_assigned(consumers: list[Consumer], wanted: set[tuple[str, int]]) -> None:
    """Until these consumers own exactly these partitions, none twice, each its share of them."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    owned: list[TopicPartition] = []
    while time.monotonic() < deadline:
        for consumer in consumers:
            consumer.poll(0.01)
        shares = [consumer.assignment() for consumer in consumers]
        owned = [part for share in shares for part in share]
        complete = {(p.topic, p.partition) for p in owned} == wanted and len(owned) == len(wanted)
        if complete and len(max(shares, key=len)) - len(min(shares, key=len)) <= 1:
            return
    raise AssertionError(f"not assigned: {sorted((p.topic, p.partition) for p in owned)}")
