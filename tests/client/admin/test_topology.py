"""What a topology file may say, and what it means."""

from pathlib import Path

import pytest

from penstock.client.admin.topology import BadTopology, Guarantee, WantedTopic, read_topology


def told(tmp_path: Path, text: str, name: str = "t.toml") -> dict[str, WantedTopic]:
    file = tmp_path / name
    file.write_text(text)
    return read_topology(file)


def test_everything_that_can_be_said_of_a_topic_is_read(tmp_path: Path) -> None:
    text = """
    [topics."shop.orders"]
    key = "order_id"
    partitions = 6
    replicas = 3
    guarantee = "exactly-once"
    retention = "7d"
    settings = { "max.message.bytes" = 10, "message.timestamp.type" = "LogAppendTime" }
    """
    assert told(tmp_path, text) == {
        "shop.orders": WantedTopic(
            name="shop.orders",
            key="order_id",
            guarantee=Guarantee.EXACTLY_ONCE,
            partitions=6,
            replicas=3,
            settings={
                "cleanup.policy": "delete",
                "retention.ms": "604800000",
                "max.message.bytes": "10",
                "message.timestamp.type": "LogAppendTime",
            },
        )
    }


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", {}),
        ("compaction = true", {"cleanup.policy": "compact"}),
        ("compaction = false", {"cleanup.policy": "delete"}),
        ("retention = '90s'", {"cleanup.policy": "delete", "retention.ms": "90000"}),
        ("retention = 'forever'", {"cleanup.policy": "delete", "retention.ms": "-1"}),
        (
            "compaction = true\nretention = '1h'",
            {"cleanup.policy": "compact,delete", "retention.ms": "3600000"},
        ),
    ],
)
def test_retention_and_compaction_become_kafkas_settings(
    tmp_path: Path, text: str, settings: dict[str, str]
) -> None:
    assert told(tmp_path, f"[topics.a]\n{text}")["a"].settings == settings


def test_json_says_the_same_as_toml(tmp_path: Path) -> None:
    toml = told(tmp_path, '[topics.a]\nsettings = { "x" = [1, true] }')
    json = told(tmp_path, '{"topics": {"a": {"settings": {"x": [1, true]}}}}', "t.json")
    assert toml == json == {"a": WantedTopic(name="a", settings={"x": "1,true"})}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a table `topics`"),
        ("topics = 1", "expected a table `topics`"),
        ("[topics]", "names no topic"),
        ("topics.a = 1", "topics.a is no table"),
        ("no toml", "t.toml: "),
        ("[topics.a]\npartitions = 0", "topics.a.partitions is no number above 0"),
        ("[topics.a]\npartitions = 2147483648", "topics.a.partitions is 2147483648: 2147483647 is"),
        ("[topics.a]\nreplicas = 32768", "topics.a.replicas is 32768: 32767 is the most"),
        ("[topics.a]\nreplicas = true", "topics.a.replicas is no number above 0"),
        ("[topics.a]\nsettings = 1", "topics.a.settings is no table"),
        ("[topics.a]\npartition = 1", "topics.a.partition is not known: did you mean partitions?"),
        ("[topics.a]\nowner = 'x'", "topics.a.owner is not known: expected key, partitions,"),
        ("[topics.a]\n[topic.b]", "topic is not known: did you mean topics?"),
        ("[topics.a]\nkey = 1", "topics.a.key is no text"),
        ("[topics.a]\nretention = 7", "topics.a.retention is 7: expected such as 12h"),
        ("[topics.a]\nretention = '0d'", "expected such as 12h"),
        ("[topics.a]\ncompaction = 'yes'", "compaction is neither true nor false"),
        ("[topics.a]\nguarantee = 'twice'", "expected at-most-once, at-least-once, exactly-once"),
        (
            "[topics.a]\ncompaction = true\nsettings = { 'cleanup.policy' = 'delete' }",
            "cleanup.policy follows from retention and compaction already",
        ),
    ],
)
def test_file_that_says_something_else_is_refused_by_name(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(BadTopology) as refused:
        told(tmp_path, text)
    assert reason in str(refused.value)
