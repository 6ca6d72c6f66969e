"""The events of the code and the tables of docs/logs.md agree, and each is logged somewhere."""

import ast
import re
from collections.abc import Iterator

import pytest

from penstock.model import events
from penstock.model.events import EVENTS, Event
from rig.source_tree import PACKAGE, ROOT

PAGE = ROOT / "docs" / "logs.md"
# An event has a dot in its name; keys of lines, reasons and causes have none.
ROW = re.compile(r"^\| `(?P<name>\w+\.\w+)` \| .* \|$", re.MULTILINE)
NAMES = {id(value): name for name, value in vars(events).items() if isinstance(value, Event)}
EVERY_CALL = {"failure"}  # no field: where it happened


def row_of(event: Event) -> str:
    fields = " ".join(f"`{name}`" for name in event.fields)
    return f"| `{event.name}` | {event.level.name.lower()} | {fields} | {event.advice} |"


def calls() -> Iterator[tuple[str, ast.expr, frozenset[str]]]:
    """Each `tell` of the source: where, which event, with which fields."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "tell(" not in text or path.name == "event_log.py":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "tell" and node.keywords:
                if not ast.unparse(node.args[0]).endswith(("logger", "log")):
                    continue
                fields = frozenset(keyword.arg or "**" for keyword in node.keywords)
                where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                yield where, node.args[1], fields - EVERY_CALL


def named(chosen: ast.expr) -> list[str]:
    """The event of a call, or the two that it chooses from."""
    if isinstance(chosen, ast.IfExp):
        return named(chosen.body) + named(chosen.orelse)
    assert isinstance(chosen, ast.Name), ast.unparse(chosen)
    return [chosen.id]


def test_the_table_has_every_event_of_the_code_and_no_other() -> None:
    rows = {found["name"]: found[0] for found in ROW.finditer(PAGE.read_text(encoding="utf-8"))}
    assert rows == {name: row_of(event) for name, event in EVENTS.items()}


def test_every_event_is_logged_somewhere() -> None:
    logged = {name for _, chosen, _ in calls() for name in named(chosen)}
    assert logged == set(NAMES.values())


@pytest.mark.parametrize("call", list(calls()), ids=lambda call: str(call[0]))
def test_a_call_gives_fields_that_its_event_declares(
    call: tuple[str, ast.expr, frozenset[str]],
) -> None:
    where, chosen, fields = call
    for name in named(chosen):
        declared = set(getattr(events, name).fields)
        assert fields <= declared, (where, sorted(fields - declared))


def test_every_declared_field_is_given_by_some_call() -> None:
    given: dict[str, set[str]] = {name: set() for name in NAMES.values()}
    for _, chosen, fields in calls():
        for name in named(chosen):
            given[name] |= fields
    declared = {name: set(getattr(events, name).fields) for name in given}
    assert given == declared
