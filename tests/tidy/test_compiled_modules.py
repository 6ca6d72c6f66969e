"""Compiled modules are those of the sources that stand beside them, and answer as these do."""

import ast
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from penstock.cli import compiled
from penstock.cli.compiled import Form, StaleModules, hot_modules_form, refuse_stale
from rig.slow_until import VARIABLE as SLOW_UNTIL
from rig.source_tree import ROOT, parse, place

TESTS = ROOT / "tests"
LISTED = (ROOT / "hot-modules.txt").read_text(encoding="utf-8").splitlines()
ALTERING = "mark." + "alters_code"  # in two pieces, so that this file does not find itself
ALTERING_FILES = sorted(
    str(path.relative_to(TESTS))
    for path in TESTS.rglob("test_*.py")
    if ALTERING in path.read_text("utf-8")
)

# What a request passes through: enough to see that nothing leans on being compiled.
HOT_PATH = (
    "broker/api/test_single_produce.py",
    "broker/api/test_produce.py",
    "broker/api/test_fetch.py",
    "broker/api/test_long_poll.py",
    "log/test_append_and_read.py",
    "records/test_produced_batch_rules.py",
    "replication/test_leading_a_partition.py",
    "wire/test_framing.py",
    "world/test_tcp.py",
)


def test_every_module_that_is_to_be_compiled_is_there() -> None:
    assert sorted(set(LISTED)) == LISTED
    assert [line for line in LISTED if not (ROOT / line).is_file()] == []


def test_a_build_of_continuous_integration_has_compiled_the_hot_modules() -> None:
    """A build that cannot compile them goes on without, and says so where pip does not show it."""
    if not os.environ.get("CI") or shutil.which("cc") is None:
        pytest.skip("only continuous integration has to compile, where there is a compiler")
    assert hot_modules_form() is Form.COMPILED, "run `python setup.py build_ext` to see why"


def test_a_compiled_module_is_that_of_its_source() -> None:
    if hot_modules_form() is Form.PYTHON:
        pytest.skip("the hot modules are not compiled here")
    refuse_stale()
    names = {line.split()[1] for line in compiled.COMPILED_LIST.read_text().splitlines()}
    assert {f"src/{name}" for name in names} == set(LISTED)


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source, and what a build that compiled it would have left."""
    source = tmp_path / "penstock" / "hot.py"
    source.parent.mkdir()
    source.write_text("ANSWER = 42\n")
    listed = source.parent / "compiled.txt"
    listed.write_text(f"{zlib.crc32(source.read_bytes()):08x} penstock/hot.py\n")
    monkeypatch.setattr(compiled, "FOLDER", tmp_path)
    monkeypatch.setattr(compiled, "COMPILED_LIST", listed)
    monkeypatch.setattr(compiled, "hot_modules_form", lambda: Form.COMPILED)
    return source


def test_an_edited_source_is_told_of_by_name(built: Path) -> None:
    refuse_stale()  # as it was compiled, it is taken
    built.write_text("ANSWER = 43\n")
    with pytest.raises(StaleModules, match=r"older than their source \(penstock/hot.py\).*build"):
        refuse_stale()


def test_a_source_that_is_gone_is_told_of_by_name(built: Path) -> None:
    built.unlink()
    with pytest.raises(StaleModules, match=r"penstock/hot\.py"):
        refuse_stale()


def test_what_a_failed_build_left_is_refused(built: Path) -> None:
    compiled.COMPILED_LIST.unlink()
    with pytest.raises(StaleModules, match="failed"):
        refuse_stale()


def test_the_hot_path_answers_alike_in_python() -> None:
    outcome = run_in_python(*(TESTS / name for name in HOT_PATH))
    assert all_passed(outcome), outcome.stdout + outcome.stderr


def test_files_of_tests_that_alter_code_are_found() -> None:
    assert "sim/test_planted_cluster_bugs.py" in ALTERING_FILES


# Each file in a run of its own, so that no time-out is that of all of them together.
@pytest.mark.slow
@pytest.mark.parametrize("name", ALTERING_FILES)
def test_tests_that_alter_code_pass(name: str) -> None:
    """Those that a run with compiled modules passes over."""
    outcome = run_in_python("-m", "alters_code", TESTS / name)
    assert all_passed(outcome), outcome.stdout + outcome.stderr


def run_in_python(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if hot_modules_form() is Form.PYTHON:
        pytest.skip("the hot modules run in Python in all tests")
    code = """
import sys
import rig.interpreted
import penstock.broker.network.connection
assert penstock.broker.network.connection.__file__.endswith(".py")
import pytest
sys.exit(pytest.main(["-p", "no:cacheprovider", *sys.argv[1:]]))
"""
    # A test that began in time has to see those end that it runs.
    environment = {name: value for name, value in os.environ.items() if name != SLOW_UNTIL}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=590,
        cwd=TESTS,
    )


def all_passed(outcome: subprocess.CompletedProcess[str]) -> bool:
    """None was left out, and there was one at least."""
    told = outcome.stdout
    return outcome.returncode == 0 and " passed" in told and " skipped" not in told


def test_a_run_in_python_leaves_out_no_slow_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a part of one that began in time."""
    sample = tmp_path / "test_sample.py"
    sample.write_text("import pytest\n\n@pytest.mark.slow\ndef test_ordeal(): pass\n")
    monkeypatch.setenv(SLOW_UNTIL, "1")
    outcome = run_in_python("-p", "rig.slow_until", "-c", ROOT / "pyproject.toml", sample)
    assert all_passed(outcome), outcome.stdout + outcome.stderr


def test_no_compiled_coroutine_waits_while_it_handles_an_exception() -> None:
    """There the exception would be left behind as the one that all others come from."""
    faults = [
        place(path, inner)
        for path in map(ROOT.joinpath, LISTED)
        for outer in ast.walk(parse(path))
        for block in handling(outer)
        for inner in ast.walk(block)
        if isinstance(inner, ast.Await | ast.Yield | ast.YieldFrom | ast.AsyncWith)
    ]
    assert not faults, faults


def test_no_compiled_membership_test_unpacks_into_a_literal() -> None:
    """mypyc fails at `one in (*some, *others)`, and all hot modules would run in Python."""
    faults = [
        place(path, node)
        for path in map(ROOT.joinpath, LISTED)
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Compare)
        for literal in node.comparators
        if isinstance(literal, ast.Tuple | ast.List)
        if any(isinstance(element, ast.Starred) for element in literal.elts)
    ]
    assert not faults, faults


def test_no_compiled_function_tells_tuples_apart_by_identity() -> None:
    """There a tuple is its values: what is read from a list is another one than what was put in."""
    faults = [
        place(path, node)
        for path in map(ROOT.joinpath, LISTED)
        for function in ast.walk(parse(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in compared_by_identity(function)
        if isinstance(node, ast.Name) and node.id in names_of_tuples(function)
    ]
    assert not faults, faults


def compared_by_identity(function: ast.AST) -> list[ast.expr]:
    return [
        operand
        for node in ast.walk(function)
        if isinstance(node, ast.Compare)
        if any(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
        for operand in (node.left, *node.comparators)
    ]


def names_of_tuples(function: ast.AST) -> set[str]:
    return {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def handling(node: ast.AST) -> list[ast.AST]:
    """The parts of a statement that run while an exception may be under way."""
    if isinstance(node, ast.AsyncWith):
        return [node]
    if isinstance(node, ast.Try):
        return [*node.handlers, *node.finalbody]
    return []
