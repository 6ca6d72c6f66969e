"""Each check of a simulation has a name and a promise."""

import ast
from collections.abc import Iterator
from pathlib import Path

import penstock.sim
from penstock.sim.checks import CHECKS, promise_of
from penstock.sim.errors import Violation


def names() -> Iterator[str]:
    """Those that violations have."""
    for path in sorted(Path(str(penstock.sim.__file__)).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Violation"
                and len(node.args) == 2
            ):
                assert isinstance(node.args[0], ast.Constant), path
                yield str(node.args[0].value)


def test_every_violation_names_a_check_and_every_check_can_fail() -> None:
    assert set(names()) == set(CHECKS)


def test_promise_is_found_by_the_text_of_a_violation() -> None:
    assert promise_of(str(Violation("order", "orders-0 has 2 after 3"))) == CHECKS["order"]
    assert promise_of("error: AssertionError") is None
