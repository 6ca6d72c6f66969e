"""Java's `kafka-consumer-groups`, unmodified: what it lists, describes, resets and deletes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from rig.apache_kafka.agent import KafkaAgent, ToolRun
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.clients.polling import PollingMember, commit

TopicMaker = Callable[..., str]
Groups = Callable[..., ToolRun]
FIRST_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
FOR_EVER = {"retention.ms": "-1"}
PROTOCOLS = ("classic", "consumer")


@pytest.fixture
def groups(kafka_agent: KafkaAgent, bootstrap: str) -> Groups:
    def run(*arguments: str) -> ToolRun:
        return kafka_agent.run_tool(
            "kafka-consumer-groups", "--bootstrap-server", bootstrap, *arguments
        )

    return run


def done(run: ToolRun) -> str:
    assert run.status == 0, run.output
    return run.output


def rows(output: str) -> list[list[str]]:
    """The cells of a table, without its head and without what is said around it."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    heads = [number for number, cells in enumerate(lines) if cells[0] == "GROUP"]
    return [] if not heads else lines[heads[0] + 1 :]


def fill(client: ConfluentClient, topic: str, *, count: int = 10) -> None:
    """One record a second in partition 0."""
    messages = [
        Message(value=b"v", partition=0, timestamp_ms=FIRST_MS + n * 1_000) for n in range(count)
    ]
    client.produce(topic, messages)


def test_group_without_members_is_listed_and_described(
    groups: Groups, bootstrap: str, confluent: ConfluentClient, topic: TopicMaker
) -> None:
    name = topic(partitions=2, **FOR_EVER)
    group = f"of-{name}"
    fill(confluent, name)
    commit(bootstrap, group, [TopicPartition(name, 0, 4)])
    assert group in done(groups("--list")).split()
    assert [group, "Empty"] in rows(done(groups("--list", "--state", "empty")))
    assert [group, "Empty"] not in rows(done(groups("--list", "--state", "stable")))
    described = done(groups("--describe", "--group", group))
    assert f"Consumer group '{group}' has no active members." in described
    assert rows(described) == [[group, name, "0", "4", "10", "6", "-", "-", "-"]]
    assert "has no active members" in done(groups("--describe", "--group", group, "--members"))
    [state] = rows(done(groups("--describe", "--group", group, "--state")))
    assert state[-2:] == ["Empty", "0"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_are_described_with_what_they_read(
    groups: Groups,
    bootstrap: str,
    confluent: ConfluentClient,
    topic: TopicMaker,
    protocol: str,
) -> None:
    name = topic(partitions=2, **FOR_EVER)
    group = f"of-{name}"
    fill(confluent, name)
    with PollingMember(bootstrap, group, name, group_protocol=protocol, client_id="reader"):
        described = rows(done(groups("--describe", "--group", group)))
        assert [cells[1:3] for cells in described] == [[name, "0"], [name, "1"]]
        assert {cells[-1] for cells in described} == {"reader"}
        assert {cells[-2] for cells in described} == {"/127.0.0.1"}
        [member] = rows(done(groups("--describe", "--group", group, "--members", "--verbose")))
        assert "reader" in member
        assert f"{name}:0,1" in member
        [state] = rows(done(groups("--describe", "--group", group, "--state")))
        assert state[-2:] == ["Stable", "1"]
        typed = rows(done(groups("--list", "--type", protocol)))
        assert [group, protocol.capitalize()] in typed
        refused = groups(*reset(group, name), "--to-earliest", "--execute")
        assert "inactive" in refused.output
        assert group in groups("--delete", "--group", group).output
        assert group in done(groups("--list")).split()


def reset(group: str, topic: str) -> tuple[str, ...]:
    return ("--reset-offsets", "--group", group, "--topic", topic)


@pytest.mark.parametrize(
    ("aim", "offset"),
    [
        (("--to-earliest",), "0"),
        (("--to-latest",), "10"),
        (("--to-current",), "4"),
        (("--to-offset", "7"), "7"),
        (("--shift-by", "-3"), "1"),
        (("--shift-by", "100"), "10"),
        (("--to-datetime", "2023-11-14T22:13:25.000"), "5"),
        (("--by-duration", "PT0S"), "10"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_offsets_are_reset_after_a_dry_run(
    groups: Groups,
    bootstrap: str,
    confluent: ConfluentClient,
    topic: TopicMaker,
    aim: tuple[str, ...],
    offset: str,
) -> None:
    name = topic(**FOR_EVER)
    group = f"of-{name}"
    fill(confluent, name)
    commit(bootstrap, group, [TopicPartition(name, 0, 4)])
    expected = [[group, name, "0", offset]]
    assert rows(done(groups(*reset(group, name), *aim, "--dry-run"))) == expected
    assert rows(done(groups("--describe", "--group", group)))[0][3] == "4"
    assert rows(done(groups(*reset(group, name), *aim, "--execute"))) == expected
    assert rows(done(groups("--describe", "--group", group)))[0][3] == offset


def test_offsets_go_through_a_file(
    groups: Groups, bootstrap: str, confluent: ConfluentClient, topic: TopicMaker, tmp_path: Path
) -> None:
    name = topic(partitions=2, **FOR_EVER)
    group = f"of-{name}"
    fill(confluent, name)
    commit(bootstrap, group, [TopicPartition(name, 0, 4), TopicPartition(name, 1, 0)])
    exported = done(groups(*reset(group, name), "--to-current", "--export", "--dry-run"))
    lines = [line for line in exported.splitlines() if line.startswith(('"' + name, name))]
    assert len(lines) == 2, exported
    plan = tmp_path / "offsets.csv"
    plan.write_text(f"{name},0,6\n{name},1,0\n", encoding="utf-8")
    arguments = ("--reset-offsets", "--group", group, "--from-file", str(plan), "--execute")
    done(groups(*arguments))
    described = {cells[2]: cells[3] for cells in rows(done(groups("--describe", "--group", group)))}
    assert described == {"0": "6", "1": "0"}


def test_offsets_and_groups_are_deleted(
    groups: Groups, bootstrap: str, confluent: ConfluentClient, topic: TopicMaker
) -> None:
    name, other = topic(**FOR_EVER), topic(**FOR_EVER)
    group = f"of-{name}"
    fill(confluent, name)
    fill(confluent, other)
    commit(bootstrap, group, [TopicPartition(name, 0, 4), TopicPartition(other, 0, 5)])
    deleted = done(groups("--delete-offsets", "--group", group, "--topic", other))
    assert "Successful" in deleted
    assert [cells[1] for cells in rows(done(groups("--describe", "--group", group)))] == [name]
    assert "successful" in done(groups("--delete", "--group", group))
    assert group not in done(groups("--list")).split()
    missing = groups("--describe", "--group", group).output
    assert "not found" in missing


def test_offsets_of_a_subscribed_topic_are_not_deleted(
    groups: Groups, bootstrap: str, confluent: ConfluentClient, topic: TopicMaker
) -> None:
    name = topic(**FOR_EVER)
    group = f"of-{name}"
    fill(confluent, name)
    commit(bootstrap, group, [TopicPartition(name, 0, 4)])
    with PollingMember(bootstrap, group, name):
        refused = groups("--delete-offsets", "--group", group, "--topic", name).output
        assert "subscribed" in refused
    assert rows(done(groups("--describe", "--group", group)))[0][3] == "4"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_console_consumer_reads_on_where_its_group_has_got_to(
    kafka_agent: KafkaAgent,
    groups: Groups,
    bootstrap: str,
    confluent: ConfluentClient,
    topic: TopicMaker,
    protocol: str,
) -> None:
    name = topic(**FOR_EVER)
    group = f"of-{name}"
    confluent.produce(name, [Message(value=b"v%d" % n, partition=0) for n in range(6)])

    def read() -> list[str]:
        run = kafka_agent.run_tool(
            *("kafka-console-consumer", "--bootstrap-server", bootstrap, "--topic", name),
            *("--group", group, "--from-beginning", "--max-messages", "3"),
            *("--command-property", f"group.protocol={protocol}"),
        )
        return [line for line in done(run).splitlines() if line.startswith("v")]

    assert read() == ["v0", "v1", "v2"]
    assert read() == ["v3", "v4", "v5"]
    assert rows(done(groups("--describe", "--group", group)))[0][3:6] == ["6", "6", "0"]
