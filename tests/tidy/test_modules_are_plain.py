"""A module reads from its top: imports stand there, and no `__init__` hides anything."""

import ast
from pathlib import Path

from rig.source_tree import PACKAGE, imported_names, modules, parse, place

# `penstock serve` must not pay for tables and clients, nor a user's pytest for a broker.
# Spark is loaded by who has it installed, and a process of Spark's that reads does not load what
# writes.
LATE_LOADERS = {
    PACKAGE / "cli",
    PACKAGE / "node" / "build.py",  # what a node that is alone has no use for
    PACKAGE / "node" / "authentications.py",  # what a node without SASL has no use for
    PACKAGE / "node" / "metric_sources.py",  # what a node without TLS has no use for
    PACKAGE / "node" / "broker_parts.py",  # what a broker that shows no metrics has no use for
    PACKAGE / "records" / "compression.py",  # what batches without compression have no use for
    PACKAGE / "world" / "offload.py",  # what a node that cleans no log has no use for
    PACKAGE / "world" / "key_store.py",  # what files in PEM have no use for
    PACKAGE / "testing",
    PACKAGE / "client" / "__init__.py",  # nodes and commands use a part of it each
    PACKAGE / "spark" / "__init__.py",
    PACKAGE / "spark" / "data_source.py",
}
# The public faces hold the names that users import.
PUBLIC_FACES = {
    PACKAGE / room / "__init__.py" for room in ("client", "planning", "testing", "spark")
}


def test_imports_stand_at_the_top_of_a_module() -> None:
    faults = [
        place(path, inner)
        for path in modules()
        for outer in ast.walk(parse(path))
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(outer)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]
    assert not faults, f"import inside a function: {faults}"


def test_only_the_command_line_and_public_faces_load_modules_by_name() -> None:
    faults = [
        place(path, node)
        for path in modules()
        if not LATE_LOADERS & {path, *path.parents}
        for node, module in imported_names(parse(path))
        if module.split(".")[0] == "importlib" and module != "importlib.metadata"
    ]
    assert not faults, f"late import: {faults}"


def test_imports_are_absolute() -> None:
    faults = [
        place(path, node)
        for path in modules()
        for node, module in imported_names(parse(path))
        if module.startswith(".")
    ]
    assert not faults, f"relative import: {faults}"


def test_a_package_init_holds_only_its_docstring() -> None:
    faults = [
        place(path, statement)
        for path in modules()
        if path.name == "__init__.py" and path not in PUBLIC_FACES
        for statement in parse(path).body[1:]
    ]
    assert not faults, f"code in an __init__: {faults}"


def test_every_module_opens_with_what_it_owns() -> None:
    faults = [place(path, parse(path)) for path in modules() if not documented(path)]
    assert not faults, f"no docstring: {faults}"


def documented(path: Path) -> bool:
    return bool(ast.get_docstring(parse(path)))
