"""`penstock topics` and `penstock configs` against a broker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.topics_offsets import AtTime, Deletion, PartitionOffsets, plan
from penstock.client.consume.offsets import ListedOffset
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.testing import Broker

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def at_broker(penstock: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", penstock.bootstrap)


def test_topics_are_created_listed_described_altered_and_deleted(run: Run) -> None:
    assert run("topics create a b --partitions 2 --set retention.ms=1000").lines == [
        "created a",
        "created b",
    ]
    listed = run("topics list --json").json()
    assert [(t["name"], t["partitions"], t["replicas"]) for t in listed] == [
        ("a", 2, 1),
        ("b", 2, 1),
    ]
    assert run("topics alter a --partitions 3 --set segment.ms=5 --unset retention.ms").status == 0
    (described,) = run("topics describe a --json").json()
    assert described["settings"] == {"segment.ms": "5"}
    assert [p["leader"] for p in described["partitions"]] == [1, 1, 1]
    assert run("topics delete a b").lines == ["deleted a", "deleted b"]
    assert run("topics list --json").json() == []


def test_one_replica_may_be_asked_for_as_kafkas_tools_do(run: Run, penstock: Broker) -> None:
    create = f"topics create a --replication-factor 1 --bootstrap-server {penstock.bootstrap}"
    assert run(create).lines == ["created a"]


def test_topics_of_the_system_are_listed_on_demand_those_of_spark_sinks_too(run: Run) -> None:
    run("topics create orders __penstock_sinks")
    for command in ("topics list", "topics offsets"):
        assert "__penstock_sinks" not in run(command).text
        assert "orders" in run(command).text
        assert "__penstock_sinks" in run(f"{command} --internal").text


def test_tables_name_what_they_show(run: Run) -> None:
    run("topics create orders --set retention.ms=1000")
    assert "orders" in run("topics list").text
    described = run("topics describe orders").text
    assert "retention.ms=1000" in described
    assert "leader" in described


def test_topic_that_is_there_already_is_refused_unless_that_is_fine(run: Run) -> None:
    run("topics create a")
    again = run("topics create a")
    assert again.status == 1
    assert again.err == "penstock: a: Topic 'a' already exists.\n"
    assert run("topics create a --if-not-exists").status == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("topics describe nope", "nope: there is no such topic"),
        ("topics delete nope", "nope: there is no such topic"),
        ("topics alter nope --partitions 3", "nope: there is no such topic"),
        ("topics alter __cluster_metadata --partitions 3", "there is no such topic"),
        ("topics create a/b", "a/b"),
        ("topics create a --set retention.ms=soon", "retention.ms"),
        ("topics create a --set no.such.setting=1", "no.such.setting"),
        ("topics create a --set nonsense", "expected NAME=VALUE"),
        ("topics create a --partitions 0", "--partitions"),
        ("topics create a --partitions 2147483648", "--partitions"),
        ("topics create a --replicas 32768", "--replicas"),
        ("topics create a --replication-factor 3", "only 1 broker(s) are registered"),
        ("topics alter a", "nothing to alter"),
        ("configs describe", "--topic, --broker and --group"),
        ("configs alter --topic nope --set retention.ms=1", "nope"),
        ("configs describe --broker one", "no broker id"),
    ],
)
def test_trouble_is_one_line_and_an_exit_status(run: Run, command: str, said: str) -> None:
    outcome = run(command)
    assert outcome.status != 0
    assert said in outcome.err
    assert outcome.err.startswith("penstock: ")
    assert outcome.err.count("\n") == 1
    assert outcome.out == b""


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_get_no_more_partitions(run: Run, name: str) -> None:
    run(f"topics create {name} --partitions 2")
    outcome = run(f"topics alter {name} --partitions 3")
    assert outcome.status == 1
    assert outcome.err == (
        f"penstock: {name}: The number of partitions of the internal topic {name} cannot change: "
        "what it holds is found by it.\n"
    )
    (described,) = run(f"topics describe {name} --json").json()
    assert len(described["partitions"]) == 2


def test_settings_are_shown_with_where_they_come_from(run: Run) -> None:
    run("topics create a")
    assert run("configs alter --topic a --set retention.ms=5000").lines == ["altered topic a"]
    entries = run("configs describe --topic a --json").json()
    sources = {entry["name"]: (entry["value"], entry["source"]) for entry in entries}
    assert sources["retention.ms"] == ("5000", "TOPIC")
    assert len(run("configs describe --topic a --all --json").json()) > 20
    assert "retention.ms" in run("configs describe --topic a").text
    assert "num.partitions" in run("configs describe --broker 1 --all").text


def test_a_group_has_settings_of_its_own(run: Run) -> None:
    change = "--group g --set consumer.session.timeout.ms=50000"
    assert run(f"configs alter {change}").lines == ["altered group g"]
    [entry] = run("configs describe --group g --json").json()
    assert (entry["name"], entry["value"]) == ("consumer.session.timeout.ms", "50000")
    assert entry["source"] == "GROUP"


def test_file_of_topics_is_made_true_and_then_is(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "topics.toml"
    file.write_text(
        """
        [topics.orders]
        key = "order_id"
        partitions = 2
        guarantee = "exactly-once"
        retention = "7d"
        settings = { "unclean.leader.election.enable" = true }
        [topics.clicks]
        compaction = true
        """
    )
    first = (
        "create orders: 2 partitions cleanup.policy=delete retention.ms=604800000"
        " unclean.leader.election.enable=true"
    )
    assert run(f"topics apply {file} --dry-run").lines[0] == first
    assert run("topics list --json").json() == []
    assert run(f"topics apply {file}").lines[0] == first
    assert run(f"topics apply {file}").lines == ["nothing to do"]
    file.write_text('[topics.orders]\npartitions = 4\nsettings = { "retention.ms" = 2000 }')
    assert run(f"topics apply {file}").lines == [
        "alter orders: 4 partitions",
        "alter orders: retention.ms=2000",
    ]
    file.write_text("[topics.orders]\npartitions = 1")
    refused = run(f"topics apply {file}")
    assert (refused.status, "can't go back to 1" in refused.err) == (1, True)
    file.write_text("[topics.orders]\nretain = '7d'")
    refused = run(f"topics apply {file}")
    assert (refused.status, "topics.orders.retain is not known" in refused.err) == (1, True)


@pytest.mark.parametrize(("at_time", "new"), [(1, 1), (2, 2), (5, 5), (None, 2)])
def test_records_are_deleted_up_to_a_time_while_others_are_produced(
    at_time: int | None, new: int
) -> None:
    """The offset by time is asked for last, and may be that of a record that was not there yet."""
    orders = TopicPartition("orders", 0)
    listed = ListedOffset(
        offset=None if at_time is None else Offset(at_time), timestamp_ms=None, leader_epoch=None
    )
    found = PartitionOffsets(partition=orders, earliest=Offset(0), latest=Offset(2), at_time=listed)
    step = Deletion(partition=orders, old=Offset(0), new=Offset(new))
    assert plan([found], AtTime(1_000)) == [step]
