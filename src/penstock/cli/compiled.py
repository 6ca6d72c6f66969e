"""What of this installation is compiled, and whether it was compiled from the sources beside it.

Binaries stand beside the modules that they were made from and are found before them. In a checkout
that somebody works on, an edited module would change nothing and nobody would be told why. So the
build leaves `compiled.txt`, the checksum of each source that it compiled, and every command begins
with `refuse_stale`, which takes a millisecond.

    line   checksum (CRC-32, eight hexadecimal digits), space, path from the package's folder on
"""

import zlib
from enum import Enum
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

from penstock.model.error import PenstockError

FOLDER = Path(__file__).resolve().parents[2]
COMPILED_LIST = FOLDER / "penstock" / "compiled.txt"
KERNEL_MODULE = "penstock.records.kernel.walk"
HOT_MODULE = "penstock.records.batch"  # all of them are compiled or none is: one speaks for all
REMEDY = "run `make build`, or `make unbuild` to go on without them"


class StaleModules(PenstockError):
    """Compiled modules are not what their sources say."""


class Form(Enum):
    """How a part of the code runs. The answers are the same, the speed is not."""

    COMPILED = "compiled"
    PYTHON = "python"


def kernel_form() -> Form:
    """Of the record kernel, or of its twin in its place."""
    return form_of(KERNEL_MODULE)


def hot_modules_form() -> Form:
    """Of the modules that requests pass through."""
    return form_of(HOT_MODULE)


def form_of(module: str) -> Form:
    """As an import would find it; nothing but the packages above it is imported."""
    spec = find_spec(module)
    compiled = spec is not None and str(spec.origin).endswith(tuple(EXTENSION_SUFFIXES))
    return Form.COMPILED if compiled else Form.PYTHON


def refuse_stale() -> None:
    """StaleModules when what would run is not what stands in the sources."""
    if hot_modules_form() is Form.PYTHON:
        return
    try:
        lines = COMPILED_LIST.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise StaleModules(f"compiled modules are left of a build that failed: {REMEDY}") from None
    stale = [name for checksum, _, name in map(split, lines) if checksum_of(name) != checksum]
    if stale:
        named = ", ".join(stale[:3]) + (", ..." if len(stale) > 3 else "")
        raise StaleModules(f"compiled modules are older than their source ({named}): {REMEDY}")


def split(line: str) -> tuple[str, str, str]:
    return line.partition(" ")


def checksum_of(name: str) -> str | None:
    """None for a source that is gone."""
    try:
        return f"{zlib.crc32((FOLDER / name).read_bytes()):08x}"
    except FileNotFoundError:
        return None
