"""The repository as the tidy tests see it: its files, and its modules as syntax trees."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "penstock"


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
    """What is under version control, or about to be: not what runs leave behind."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout.decode()
    return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]
