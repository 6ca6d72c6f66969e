"""From topics as they are to topics as a file wants them."""

from pathlib import Path

import pytest

from penstock.client.topology import (
    AddPartitions,
    BadTopicsFile,
    CreateTopic,
    FoundTopic,
    SetSettings,
    WantedTopic,
    plan_topics,
    read_topics_file,
)


def test_only_what_differs_is_done() -> None:
    wanted = {
        "new": WantedTopic(name="new", partitions=3),
        "grows": WantedTopic(name="grows", partitions=3, settings={"a": "1", "b": "2"}),
        "same": WantedTopic(name="same", settings={"a": "1"}),
    }
    found = {
        "grows": FoundTopic(partitions=1, settings={"a": "1"}),
        "same": FoundTopic(partitions=9, settings={"a": "1", "c": "3"}),
        "unnamed": FoundTopic(partitions=1, settings={}),
    }
    assert plan_topics(wanted, found) == [
        CreateTopic(topic=wanted["new"]),
        AddPartitions(name="grows", count=3),
        SetSettings(name="grows", settings={"b": "2"}),
    ]


def test_json_says_the_same_as_toml(tmp_path: Path) -> None:
    toml, json = tmp_path / "t.toml", tmp_path / "t.json"
    toml.write_text('[topics.a]\nsettings = { "x" = [1, true] }')
    json.write_text('{"topics": {"a": {"settings": {"x": [1, true]}}}}')
    expected = {"a": WantedTopic(name="a", settings={"x": "1,true"})}
    assert read_topics_file(toml) == read_topics_file(json) == expected


@pytest.mark.parametrize(
    "text",
    ["", "topics = 1", "[topics]", "topics.a = 1", "[topics.a]\npartitions = 0", "no toml",
     "[topics.a]\npartition = 1", "[topics.a]\nsettings = 1", "[topics.a]\nreplicas = true"],
)  # fmt: skip
def test_file_that_says_something_else_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "t.toml"
    file.write_text(text)
    with pytest.raises(BadTopicsFile):
        read_topics_file(file)
