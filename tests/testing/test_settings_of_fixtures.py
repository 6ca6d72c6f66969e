"""Settings of a broker in a test: plain values, markers, an overridden fixture."""

import subprocess
import sys
import textwrap
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from penstock.testing import Broker, InvalidSetting, running_broker


def partitions(broker: Broker, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    return len(admin.list_topics(topic, timeout=60).topics[topic].partitions)


def settings_of(broker: Broker, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = confluent_kafka.admin.ConfigResource("topic", topic)
    described = admin.describe_configs([asked])[asked].result(60)
    return {name: entry.value for name, entry in described.items()}


def test_values_of_any_plain_type(tmp_path: Path) -> None:
    settings = {
        "num.partitions": 4,
        "log.cleaner.min.cleanable.ratio": 0.25,
        "unclean.leader.election.enable": True,
        "log.cleanup.policy": ["compact", "delete"],
        "log.dirs": tmp_path / "logs",
        "compression.type": "zstd",
    }
    with running_broker(settings=settings) as broker:
        topic = broker.topic(retention_ms=5_000, preallocate=False, cleanup_policy=("delete",))
        assert partitions(broker, topic) == 4
        found = settings_of(broker, topic)
        assert (tmp_path / "logs" / "meta.properties").exists()
    assert found["min.cleanable.dirty.ratio"] == "0.25"
    assert found["unclean.leader.election.enable"] == "true"
    assert found["cleanup.policy"] == "delete"
    assert found["retention.ms"] == "5000"


@pytest.mark.parametrize("value", [None, {"a": 1}, object(), b"4"])
def test_other_values_are_refused_by_name(value: object) -> None:
    with (
        pytest.raises(InvalidSetting, match=r"num\.partitions: A text, a number, a bool"),
        running_broker(settings={"num.partitions": value}),  # type: ignore[dict-item]  # wrong
    ):
        pass


@pytest.mark.penstock(settings={"num.partitions": 2, "auto.create.topics.enable": False})
class TestMarker:
    def test_settings_of_a_marker_are_those_of_the_broker(self, penstock: Broker) -> None:
        assert partitions(penstock, penstock.topic()) == 2

    @pytest.mark.penstock(settings={"num.partitions": 3})
    def test_nearest_marker_wins_and_the_others_stay(self, penstock: Broker) -> None:
        assert partitions(penstock, penstock.topic()) == 3
        assert "unknown" not in AdminClient(
            {"bootstrap.servers": penstock.bootstrap}
        ).list_topics(timeout=60).topics  # fmt: skip


def suite(folder: Path, test: str, conftest: str = "") -> str:
    """What pytest prints of a user's suite."""
    (folder / "test_it.py").write_text("import pytest\n" + textwrap.dedent(test))
    (folder / "conftest.py").write_text("import pytest\n" + textwrap.dedent(conftest))
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(folder)], capture_output=True, text=True, timeout=120, cwd=folder
    )
    return done.stdout + done.stderr


def test_overridden_fixture_gives_settings_to_both_fixtures(tmp_path: Path) -> None:
    printed = suite(
        tmp_path,
        """
        def test_one(penstock, penstock_session):
            for broker in (penstock, penstock_session):
                topic = broker.topic()
                broker.produce(topic, ["a"], partition=6)

        @pytest.mark.penstock(settings={"num.partitions": 1})
        def test_two(penstock):
            with pytest.raises(Exception):
                penstock.produce(penstock.topic(), ["a"], partition=6)
        """,
        """
        @pytest.fixture(scope="session")
        def penstock_settings():
            return {"num.partitions": 7}
        """,
    )
    assert "2 passed" in printed, printed


def test_a_wrong_marker_is_told_in_one_line(tmp_path: Path) -> None:
    by_name = "the marker takes settings, port and nodes, by name"
    wrong = [  # the marker, the fixture, and what is said
        ("settings={'num.partition': 3}", "penstock", "did you mean num.partitions?"),
        ("settings={'num.partitions': None}", "penstock", "A text, a number, a bool"),
        ("{'num.partitions': 3}", "penstock", by_name),
        ("num_partitions=3", "penstock", by_name),
        ("settings={}", "penstock_session", "gets its settings from the fixture penstock_settings"),
    ]
    tests = [
        f"@pytest.mark.penstock({marker})\ndef test_{number}({fixture}): pass\n"
        for number, (marker, fixture, _) in enumerate(wrong)
    ]
    printed = suite(tmp_path, "".join(tests))
    assert f"{len(wrong)} errors" in printed, printed
    assert "Traceback" not in printed
    told = [line for line in printed.splitlines() if line.startswith("penstock: ")]
    for line, (_, _, said) in zip(told, wrong, strict=True):
        assert said in line
