"""Runs a notebook as a kernel of Jupyter does: cell by cell, in one namespace, while an event loop
is running in the same thread.

Jupyter's own runner would bring some thirty packages, for a file of JSON. Cells are plain Python
here, so magic commands are errors.
"""

import asyncio
import json
from pathlib import Path
from typing import Any


def run_notebook(path: Path) -> dict[str, Any]:
    """The names that its cells have left."""
    return asyncio.run(_run(path, code_cells(path)))


def code_cells(path: Path) -> list[dict[str, Any]]:
    notebook = json.loads(path.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


async def _run(path: Path, cells: list[dict[str, Any]]) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        exec(compile("".join(cell["source"]), f"{path.name}#{cell['id']}", "exec"), names)
    return names
