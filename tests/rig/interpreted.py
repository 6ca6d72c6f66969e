"""Imported first, it has this process run Penstock's hot modules in Python, compiled or not.

A binary beside a module is found before it; a finder for sources alone, put before the usual one
for the folders of Penstock, turns that round. The record kernel has no source to fall back on and
is imported as ever.
"""

import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "penstock"
KERNEL = PACKAGE / "records" / "kernel"

find_sources = FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))


def find_interpreted(folder: str) -> FileFinder:
    path = Path(folder)
    if path == KERNEL or not path.is_relative_to(PACKAGE):
        raise ImportError(f"{folder} is left to others")
    finder = find_sources(folder)
    assert isinstance(finder, FileFinder)
    return finder


assert not any(name.startswith("penstock") for name in sys.modules), "it comes too late"
sys.path_hooks.insert(0, find_interpreted)
sys.path_importer_cache.clear()
