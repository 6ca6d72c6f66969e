"""Every command that the protocol allows for, on Apache Kafka, as tests/cli/test_every_command.py
runs them on Penstock: on its table and its JSON, with hostile names.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig.apache_kafka.broker import ApacheKafka
from rig.command import Outcome, run_command
from rig.every_command import CASES, Case, evil_cluster, write_files

Typed = Callable[..., Outcome]
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ON_KAFKA = [case for case in CASES if not case.only_penstock]


@pytest.fixture(scope="module")
def peer(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    settings = {
        "auto.create.topics.enable": "false",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS",
    }
    broker = ApacheKafka(
        jars=kafka_jars, folder=tmp_path_factory.mktemp("evil-peer"), settings=settings
    )
    broker.start()
    try:
        with evil_cluster(broker.bootstrap):
            yield broker
    finally:
        broker.stop()


@pytest.fixture
def typed(
    peer: ApacheKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Typed:
    monkeypatch.setenv("PENSTOCK_USER_PASSWORD", "secret")
    write_files(tmp_path)

    def run(line: str) -> Outcome:
        return run_command(
            line, bootstrap=peer.bootstrap, monkeypatch=monkeypatch, captured=capfdbinary
        )

    def typed(case: Case, options: str = "") -> Outcome:
        *before, line = case.lines(folder=str(tmp_path))
        for one in before:
            done = run(one)
            assert done.status == 0, done.err
        outcome = run(f"{line} {options}")
        assert outcome.status == case.status, outcome.err
        return outcome

    return typed


@pytest.mark.parametrize("case", ON_KAFKA, ids=lambda case: case.line)
def test_a_command_on_its_table_and_its_json(case: Case, typed: Typed) -> None:
    case.check_table(typed(case))
    if case.has_json:
        case.check_json(typed(case, "--json"))
