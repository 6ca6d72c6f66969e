"""`penstock users` adds, lists and removes the users of an Apache Kafka."""

import pytest

from rig.apache_kafka.broker import ApacheKafka
from rig.command import Outcome, run_command


def test_a_user_is_added_for_both_mechanisms_listed_and_removed(
    apache_kafka: ApacheKafka,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.setenv("PENSTOCK_USER_PASSWORD", "secret of carol")

    def run(command: str) -> Outcome:
        return run_command(
            command,
            bootstrap=apache_kafka.bootstrap,
            monkeypatch=monkeypatch,
            captured=capfdbinary,
        )

    def mechanisms() -> list[str]:
        users = run("users list --json").json()
        return sorted(one["mechanism"] for one in users if one["user"] == "carol")

    assert run("users add carol").status == 0
    assert mechanisms() == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert run("users remove carol").status == 0
    assert mechanisms() == []
