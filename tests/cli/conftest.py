"""The command line, run in this process as a user would type it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rig.command import Outcome, run_command

Penstock = Callable[..., Outcome]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> Penstock:
    """Runs `penstock ...`; the text is split as a shell would."""
    monkeypatch.chdir(tmp_path)

    def run(command: str, *, bootstrap: str | None = None) -> Outcome:
        return run_command(
            command, bootstrap=bootstrap, monkeypatch=monkeypatch, captured=capfdbinary
        )

    return run
