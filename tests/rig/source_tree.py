"""The repository as the tidy tests see it: its files, and its modules as syntax trees."""

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "penstock"
LEFT_BEHIND = re.compile(r"\.|__pycache__$|.*\.egg-info$|build$|dist$|penstock-data$")
COMPILED = {".so", ".pyd"}
OF_GIT = ".git"  # in a second work tree a file, which names a folder of this machine
KEPT_HIDDEN = {".ci"}


def modules(*packages: str) -> list[Path]:
    """Every module of these packages, or of all of Penstock; one yet to come has none."""
    roots = [PACKAGE / name for name in packages] or [PACKAGE]
    return sorted(path for root in roots for path in root.rglob("*.py"))


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def place(path: Path, node: ast.AST) -> str:
    """Where a fault stands, in the form that editors jump to."""
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def imported_names(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Each import with the full dotted name of the module it reaches."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, "." * node.level + (node.module or "")


def kept_files() -> list[Path]:
    """Every file of ours: neither what runs leave behind, nor what is installed beside it."""
    found = []
    for folder, names, files in os.walk(ROOT):
        names[:] = [name for name in names if name in KEPT_HIDDEN or not LEFT_BEHIND.match(name)]
        found += [Path(folder) / name for name in files if Path(name).suffix not in COMPILED]
    return sorted(path for path in found if path.name != OF_GIT)
