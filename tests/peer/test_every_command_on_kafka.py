"""Every command that the protocol allows for, on Apache Kafka, as tests/cli/test_every_command.py
runs them on Penstock: on its table and its JSON, with hostile names.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from rig.apache_kafka.broker import ApacheKafka
from rig.command import Outcome, run_command
from rig.every_command import (
    CASES,
    SHOWN,
    WAIT_SECONDS,
    Case,
    evil_cluster,
    evil_token,
    write_config,
    write_files,
)
from rig.held_port import HeldPort
from rig.tokens import kafka_settings_with_tokens

Typed = Callable[..., Outcome]
ON_KAFKA = [case for case in CASES if not case.only_penstock]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Apache Kafka with hostile names, and who logs in there."""

    plain: str
    guarded: str
    config: Path
    token: str


@pytest.fixture(scope="module")
def place(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("evil-peer")
    port = HeldPort()
    broker = ApacheKafka(
        jars=kafka_jars,
        folder=folder,
        settings=kafka_settings_with_tokens(
            auto_create_topics_enable="false",
            authorizer_class_name=STANDARD_AUTHORIZER,
            super_users="User:ANONYMOUS;User:alice",
        ),
        listener=("SASL_PLAINTEXT", port.address),
    )
    broker.start()
    try:
        with evil_cluster(broker.bootstrap):
            yield Place(
                plain=broker.bootstrap,
                guarded=port.address,
                config=write_config(folder / "alice.properties"),
                token=evil_token(port.address),
            )
    finally:
        broker.stop()


@pytest.fixture
def typed(
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Typed:
    monkeypatch.setenv("PENSTOCK_USER_PASSWORD", "secret")
    write_files(tmp_path)

    def run(case: Case, line: str) -> Outcome:
        more = f" --command-config {place.config}" if case.logs_in else ""
        return run_command(
            line + more,
            bootstrap=place.guarded if case.logs_in else place.plain,
            monkeypatch=monkeypatch,
            captured=capfdbinary,
        )

    def typed(case: Case, options: str = "") -> Outcome:
        *before, line = case.lines(folder=str(tmp_path), token=place.token)
        for one in before:
            done = run(case, one)
            assert done.status == 0, done.err
        # What the controller has acknowledged a broker of Apache Kafka shows a moment later.
        waits = before and line.endswith(" list") and not options
        deadline = time.monotonic() + (WAIT_SECONDS if waits else 0)
        while True:
            outcome = run(case, f"{line} {options}")
            assert outcome.status == case.status, outcome.err
            if SHOWN in outcome.text or time.monotonic() >= deadline:
                return outcome

    return typed


@pytest.mark.parametrize("case", ON_KAFKA, ids=lambda case: case.line)
def test_a_command_on_its_table_and_its_json(case: Case, typed: Typed) -> None:
    case.check_table(typed(case))
    if case.has_json:
        case.check_json(typed(case, "--json"))
