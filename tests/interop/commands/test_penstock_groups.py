"""`penstock groups` and `penstock consume --group`, against Penstock and against Apache Kafka."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from rig.clients.polling import PollingMember, commit
from rig.command import Outcome

FIRST_MS = 1_700_000_000_000  # of the records of `orders`: 2023-11-14T22:13:20Z
PROTOCOLS = ("classic", "consumer")

Command = Callable[[str], Outcome]


@pytest.fixture
def group(address: str, orders: str) -> str:
    """A group without members that has read four of the ten."""
    name = f"of-{orders}"
    commit(address, name, [TopicPartition(orders, 0, 4), TopicPartition(orders, 1, 0)])
    return name


def test_group_is_listed_and_described_with_its_lag(
    command: Command, group: str, orders: str
) -> None:
    listed = {one["group"]: one for one in command("groups list --json").json()}
    assert listed[group]["state"] == "Empty"
    assert listed[group]["type"] == "classic"
    assert group not in command("groups list --state Stable").text
    asked_ms = time.time() * 1000
    [described] = command(f"groups describe {group} --json").json()
    answered_ms = time.time() * 1000
    assert (described["state"], described["lag"], described["members"]) == ("Empty", 6, [])
    first, second = described["partitions"]
    assert (first["topic"], first["partition"]) == (orders, 0)
    assert (first["committed"], first["end_offset"], first["lag"]) == (4, 10, 6)
    unread_since_ms = FIRST_MS + 4_000
    assert asked_ms - 1 <= unread_since_ms + first["lag_ms"] <= answered_ms
    assert (second["lag"], second["lag_ms"]) == (0, 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_are_shown_and_keep_their_group_from_being_reset_or_deleted(
    command: Command, address: str, orders: str, protocol: str
) -> None:
    group = f"of-{orders}-{protocol}"
    with PollingMember(address, group, orders, group_protocol=protocol, client_id="reader"):
        [described] = command(f"groups describe {group} --json").json()
        assert (described["type"], described["state"]) == (protocol, "Stable")
        [member] = described["members"]
        assert (member["client"], member["host"]) == ("reader", "/127.0.0.1")
        assert member["assigned"] == [[orders, 0], [orders, 1], [orders, 2]]
        assert [one["member"] for one in described["partitions"]] == [member["member"]] * 3
        assert "reader" in command(f"groups describe {group}").text
        for arguments in (
            f"reset-offsets {group} --topic {orders} --to-latest --execute",
            f"delete {group}",
            f"delete {group} --topic {orders}",
            f"delete-offsets {group} --topic {orders}",
        ):
            refused = command(f"groups {arguments}")
            assert refused.status == 1
            assert refused.err.startswith("penstock: ")
            assert refused.err.count("\n") == 1
        active = command(f"groups reset-offsets {group} --topic {orders} --to-latest").err
        assert active == (
            f"penstock: group {group}: it is active (1 member): stop its consumers first\n"
        )


@pytest.mark.parametrize(
    ("aim", "offsets"),
    [
        ("--to-earliest", [0, 0]),
        ("--to-latest", [10, 0]),
        ("--to-current", [4, 0]),
        ("--to-offset 7", [7, 0]),
        ("--to-datetime 2023-11-14T22:13:25", [5, 0]),
        ("--by-duration 0s", [10, 0]),
        ("--shift-by -3", [1, 0]),
    ],
)
def test_offsets_are_shown_first_and_reset_when_told_to(
    command: Command, group: str, orders: str, aim: str, offsets: list[int]
) -> None:
    reset = f"groups reset-offsets {group} --topic {orders}:0,1 {aim} --json"
    shown = command(reset).json()
    assert [one["old"] for one in shown["offsets"]] == [4, 0]
    assert [one["new"] for one in shown["offsets"]] == offsets
    assert not shown["done"]
    assert committed(command, group) == [4, 0]
    assert command(f"{reset} --execute").json()["done"]
    assert committed(command, group) == offsets


def committed(command: Command, group: str) -> list[int]:
    [described] = command(f"groups describe {group} --json").json()
    return [one["committed"] for one in described["partitions"]]


def test_scopes_are_topics_partitions_files_or_all_that_is_committed(
    command: Command, group: str, orders: str, tmp_path: Path
) -> None:
    def reset(arguments: str) -> list[tuple[int, int]]:
        shown = command(f"groups reset-offsets {group} {arguments} --json").json()
        return [(one["partition"], one["new"]) for one in shown["offsets"]]

    assert reset(f"--topic {orders} --to-latest") == [(0, 10), (1, 0), (2, 0)]
    assert reset("--all-topics --to-latest") == [(0, 10), (1, 0)]
    file = tmp_path / "offsets.csv"
    file.write_text(f"{orders},0,8\n")
    assert reset(f"--from-file {file}") == [(0, 8)]


def test_offsets_make_a_group_that_is_not_there_yet(command: Command, orders: str) -> None:
    group = f"new-{orders}"
    command(f"groups reset-offsets {group} --topic {orders}:0 --to-offset 3 --execute")
    assert committed(command, group) == [3]


def test_offsets_and_groups_are_deleted(command: Command, group: str, orders: str) -> None:
    assert command(f"groups delete {group} --topic {orders}:0").text == (
        f"deleted offsets of {group}\n"
    )
    assert committed(command, group) == [0]
    assert command(f"groups delete {group}").text == f"deleted {group}\n"
    for again in (f"groups delete {group}", f"groups describe {group}"):
        assert command(again).err == f"penstock: {group}: there is no such group\n"


def test_offsets_of_some_partitions_are_deleted_and_the_group_stays(
    command: Command, group: str, orders: str
) -> None:
    assert command(f"groups delete-offsets {group} --topic {orders}:0").text == (
        f"deleted offsets of {group}: {orders}:0\n"
    )
    assert committed(command, group) == [0]
    told = command(f"groups delete-offsets {group} --topic {orders}:0,1 --json").json()
    assert told == {"group": group, "partitions": [[orders, 0], [orders, 1]]}
    nobody = command(f"groups delete-offsets not-there --topic {orders}")
    assert nobody.err == "penstock: not-there: there is no such group\n"


def test_reading_as_a_member_goes_on_where_the_group_has_got_to(
    command: Command, orders: str
) -> None:
    consume = f"consume {orders} --group by-{orders}"
    assert command(f"{consume} --max 3 --no-commit").text.split() == ["v0", "v1", "v2"]
    assert command(f"{consume} --max 3").text.split() == ["v0", "v1", "v2"]
    assert command(consume).text.split() == [f"v{n}" for n in range(3, 10)]
    assert command(consume).text == ""
    assert committed(command, f"by-{orders}")[0] == 10


def test_reading_as_a_new_group_from_the_end_reads_nothing_old(
    command: Command, orders: str
) -> None:
    assert command(f"consume {orders} --group late-{orders} --from latest").text == ""
    assert committed(command, f"late-{orders}")[0] == 10
