"""Every command prints a table for people and JSON for programs; names from outside harm neither.

tests/peer/test_every_command_on_kafka.py asks Apache Kafka the same.
"""

import ast
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.cells import cell_len

from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from rig.command import Outcome
from rig.every_command import (
    CASES,
    ELSEWHERE,
    Case,
    commands,
    evil_cluster,
    evil_token,
    is_harmless,
    write_config,
    write_files,
)
from rig.running_node import RunningNode
from rig.source_tree import ROOT
from rig.terminal import on_terminal
from rig.tokens import settings_with_tokens

Run = Callable[..., Outcome]
COLUMNS = 60
BAR = re.compile(r"\x1b\[(?:\?25[lh]|2K|1A)")  # how a bar of progress is drawn
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.line.replace("{evil}", "EVIL"))


@dataclass(frozen=True, kw_only=True)
class Place:
    """A node whose names are hostile, and who logs in there."""

    data: Path
    plain: str
    guarded: str
    config: Path
    token: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("evil")
    settings = {
        **settings_with_tokens(),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:alice",  # whoever runs a command here
    }
    running = RunningNode(folder / "node", settings)
    running.start()
    addresses = running.node.addresses_by_listener
    plain = str(addresses["PLAINTEXT"])
    try:
        with evil_cluster(plain):
            yield Place(
                data=folder / "node" / "node-1",
                plain=plain,
                guarded=str(addresses["SASL_PLAINTEXT"]),
                config=write_config(folder / "alice.properties"),
                token=evil_token(str(addresses["SASL_PLAINTEXT"])),
            )
    finally:
        running.stop()


class Commands:
    def __init__(self, run: Run, place: Place, folder: Path) -> None:
        self._run, self._place, self._folder = run, place, folder

    def piped(self, case: Case, options: str = "") -> Outcome:
        outcome = self._run(f"{self._prepared(case)} {options}", bootstrap=self._bootstrap(case))
        assert outcome.status == case.status, outcome.err
        assert all(line.isprintable() for line in outcome.err.splitlines())
        return outcome

    def on_terminal(self, case: Case) -> list[str]:
        return on_terminal(
            shlex.split(self._prepared(case)),
            columns=COLUMNS,
            bootstrap=self._bootstrap(case),
            status=case.status,
            with_errors=bool(case.said),
        )

    def _prepared(self, case: Case) -> str:
        """What is left to run, once what comes before it was."""
        more = f" --command-config {self._place.config}" if case.logs_in else ""
        *before, line = case.lines(
            folder=str(self._folder), data=str(self._place.data), token=self._place.token
        )
        for one in before:
            done = self._run(one + more, bootstrap=self._bootstrap(case))
            assert done.status == 0, done.err
        return line + more

    def _bootstrap(self, case: Case) -> str:
        return self._place.guarded if case.logs_in else self._place.plain


@pytest.fixture
def typed(run: Run, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setenv("PENSTOCK_USER_PASSWORD", "secret")
    write_files(tmp_path)
    return Commands(run, place, tmp_path)


@each
def test_a_pipe_gets_harmless_lines(case: Case, typed: Commands) -> None:
    case.check_table(typed.piped(case))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.has_json], ids=lambda case: case.line
)
def test_json_is_harmless_and_holds_names_as_they_are(case: Case, typed: Commands) -> None:
    case.check_json(typed.piped(case, "--json"))


@each
def test_sixty_columns_are_enough(case: Case, typed: Commands) -> None:
    """Of tables; sentences, fields of lists and words of commands are broken by the terminal."""
    lines = [BAR.sub("", line) for line in typed.on_terminal(case)]
    assert any(case.said in line for line in lines if line)
    assert all(map(is_harmless, lines))
    if case.traces:
        return
    in_table = [line for line in lines if line.startswith(" ") and not line.startswith("    ")]
    assert max(map(cell_len, in_table), default=0) <= COLUMNS


def test_every_command_is_tested() -> None:
    every = commands()
    shown = {name for name in every for case in CASES if f"{case.line} ".startswith(f"{name} ")}
    assert sorted(shown | ELSEWHERE.keys()) == sorted(every)
    assert not shown & ELSEWHERE.keys()
    for name, place in ELSEWHERE.items():
        file, _, test = place.partition("::")
        read = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
        assert test in {one.name for one in read.body if isinstance(one, ast.FunctionDef)}, name
