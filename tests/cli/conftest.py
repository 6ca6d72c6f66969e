"""The command line, run in this process as a user would type it."""

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main


@dataclass(frozen=True)
class Outcome:
    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def json(self) -> Any:
        return json.loads(self.out)


Penstock = Callable[..., Outcome]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> Penstock:
    """Runs `penstock ...`; the text is split as a shell would."""
    monkeypatch.chdir(tmp_path)

    def run(command: str, *, bootstrap: str | None = None) -> Outcome:
        if bootstrap is not None:
            monkeypatch.setenv("PENSTOCK_BOOTSTRAP", bootstrap)
        monkeypatch.setattr(sys, "argv", ["penstock", *shlex.split(command)])
        capfdbinary.readouterr()
        status = 0
        try:
            main()
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Outcome(status, out, err.decode())

    return run
