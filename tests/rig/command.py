"""The command line, run in this process as a user would type it."""

import json
import shlex
import sys
from dataclasses import dataclass
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
        assert self.status == 0, self.err
        return json.loads(self.out)


def run_command(
    command: str,
    *,
    bootstrap: str | None,
    monkeypatch: pytest.MonkeyPatch,
    captured: pytest.CaptureFixture[bytes],
) -> Outcome:
    """`penstock COMMAND`, split as a shell would split it."""
    if bootstrap is not None:
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", bootstrap)
    monkeypatch.setattr(sys, "argv", ["penstock", *shlex.split(command)])
    captured.readouterr()
    status = 0
    try:
        main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    sys.stdout.flush()
    out, err = captured.readouterr()
    return Outcome(status, out, err.decode())
