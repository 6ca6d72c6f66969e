"""Groups of real consumers: partitions move as they should, and no record is lost on the way.

Every consumer commits what it has read before it polls again, so a clean hand-over repeats nothing.
Records go on being written all the time.
"""

import itertools
from collections.abc import Callable, Iterator

import pytest

from rig.clients.confluent import ConfluentClient
from rig.members.fed_group import FedGroup
from rig.members.kinds import Kind, java_kind, python_kind
from rig.members.member import GroupMember, GroupOfMembers
from rig.steady_producer import SteadyProducer

PARTITIONS = 4
NUMBERS = itertools.count(1)
KINDS = (
    "confluent_member range",
    "confluent_member cooperative-sticky",
    "kafka_python_member range",
    "aio_kafka_member range",
    "java range",
    "java cooperative-sticky",
)
# A JVM takes seconds to start: this one shares a group with the others.
ALL_BUT_ONE = tuple(name for name in KINDS if name != "java range")
PYTHON = tuple(name for name in KINDS if not name.startswith("java"))
# Members hear of a rebalance at once. No session ends, however long the machine is busy elsewhere,
# but where a test waits for that.
BRISK = {"session_timeout_ms": "60000", "heartbeat_interval_ms": "200"}
BRIEF = {"session_timeout_ms": "1500", "max_poll_interval_ms": "1500"}


class Case(FedGroup):
    def start(self, kind: Kind, **settings: str) -> GroupMember:
        return self.group.start(kind.command, **{**BRISK, **kind.settings, **settings})


@pytest.fixture
def kind_named(request: pytest.FixtureRequest) -> Callable[[str], Kind]:
    def find(name: str) -> Kind:
        program, assignor = name.split()
        if program != "java":
            return python_kind(program, assignor)
        return java_kind(assignor, command=request.getfixturevalue("java_command"))

    return find


@pytest.fixture
def kind(request: pytest.FixtureRequest, kind_named: Callable[[str], Kind]) -> Kind:
    return kind_named(request.param)


@pytest.fixture
def case(group_bootstrap: str) -> Iterator[Case]:
    name = f"group-{next(NUMBERS)}"
    admin = ConfluentClient(group_bootstrap)
    admin.create_topic(name, partitions=PARTITIONS)
    admin.close()
    group = GroupOfMembers(bootstrap=group_bootstrap, topic=name, partitions=PARTITIONS, group=name)
    producer = SteadyProducer(bootstrap=group_bootstrap, topic=name, partitions=PARTITIONS)
    with producer:
        yield Case(group, producer)
    group.end()


@pytest.mark.parametrize("kind", ALL_BUT_ONE, indirect=True)
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


@pytest.mark.parametrize("kind", ALL_BUT_ONE, indirect=True)
def test_a_killed_member_is_replaced_after_its_session(case: Case, kind: Kind) -> None:
    first, second = (case.start(kind, session_timeout_ms="1500") for _ in range(2))
    case.group.await_shared_by(first, second)
    first.kill()
    case.group.await_shared_by(second)
    case.stop_writing()


@pytest.mark.parametrize("kind", ALL_BUT_ONE, indirect=True)
def test_a_member_that_stops_polling_loses_its_partitions_until_it_polls_again(
    case: Case, kind: Kind
) -> None:
    first, second = (case.start(kind, **BRIEF) for _ in range(2))
    case.group.await_shared_by(first, second)
    first.stall()
    case.group.await_that(
        lambda: second.owned == case.group.partitions, "the other one has all partitions"
    )
    first.resume()
    case.group.await_shared_by(first, second)
    case.stop_writing()


@pytest.mark.parametrize("kind", ALL_BUT_ONE, indirect=True)
def test_a_static_member_restarts_without_anybody_noticing(case: Case, kind: Kind) -> None:
    first = case.start(kind, group_instance_id="one")
    second = case.start(kind, group_instance_id="two")
    case.group.await_shared_by(first, second)
    owned, changes = second.owned, first.changes
    second.kill()
    third = case.start(kind, group_instance_id="two")
    case.group.await_that(lambda: third.owned == owned, "it has what it had before")
    case.stop_writing()
    assert first.changes == changes


@pytest.mark.parametrize("kind", PYTHON, indirect=True)
def test_a_member_too_many_is_idle_until_it_is_needed(case: Case, kind: Kind) -> None:
    members = [case.start(kind) for _ in range(PARTITIONS + 1)]
    case.group.await_shared_by(*members, idle=1)
    busy = next(member for member in members if member.owned)
    members.remove(busy)
    busy.leave()
    case.group.await_shared_by(*members)
    case.stop_writing()
    case.assert_read_once()


def test_members_of_all_kinds_share_one_group(
    case: Case, kind_named: Callable[[str], Kind]
) -> None:
    members = [case.start(kind_named(name)) for name in KINDS if name.endswith(" range")]
    case.group.await_shared_by(*members)
    while len(members) > 1:
        members.pop(0).leave()
        case.group.await_shared_by(*members)
    case.stop_writing()
    case.assert_read_once()
