"""`penstock log dump --records` shows no secret of the metadata."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.metadata.bootstrap_files import bootstrap_checkpoint
from penstock.metadata.records import MetadataRecord
from penstock.model.configs import ResourceKind
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.user_scram_credential import (
    UserScramCredentialRecord,
)

Run = Callable[..., Any]
BROKER, TOPIC = ResourceKind.BROKER, ResourceKind.TOPIC


@pytest.fixture
def dumped(run: Run, tmp_path: Path) -> Callable[[MetadataRecord], str]:
    def dumped(record: MetadataRecord) -> str:
        file = tmp_path / "bootstrap.checkpoint"
        file.write_bytes(bootstrap_checkpoint([record], now_ms=1))
        outcome = run(f"log dump --records {file} --json")
        assert outcome.status == 0, outcome.err
        [shown] = [
            row["value"] for row in outcome.json()["rows"] if type(record).__name__ in str(row)
        ]
        return str(shown)

    return dumped


def test_a_credential_is_shown_without_what_verifies_its_password(
    dumped: Callable[[MetadataRecord], str],
) -> None:
    shown = dumped(
        UserScramCredentialRecord(
            name="alice",
            mechanism=1,
            salt=b"s3cret salt",
            stored_key=b"s3cret stored",
            server_key=b"s3cret server",
            iterations=8192,
        )
    )
    assert "name='alice'" in shown
    assert "iterations=8192" in shown
    assert "s3cret" not in shown


@pytest.mark.parametrize(
    ("kind", "name", "is_shown"),
    [
        (BROKER, "ssl.keystore.password", False),
        (BROKER, "listener.name.external.ssl.keystore.password", False),
        (BROKER, "message.max.bytes", True),
        (TOPIC, "retention.ms", True),
    ],
)
def test_a_setting_is_shown_unless_its_value_may_be_secret(
    dumped: Callable[[MetadataRecord], str], kind: ResourceKind, name: str, is_shown: bool
) -> None:
    shown = dumped(ConfigRecord(resource_type=kind, resource_name="", name=name, value="7777"))
    assert f"name='{name}'" in shown
    assert ("7777" in shown) is is_shown


def test_a_setting_that_was_removed_is_shown_as_such(
    dumped: Callable[[MetadataRecord], str],
) -> None:
    record = ConfigRecord(resource_type=BROKER, name="ssl.keystore.password", value=None)
    assert "value=None" in dumped(record)
