"""What the README shows works, and what it names is there."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rig.source_tree import PACKAGE, ROOT

if TYPE_CHECKING:
    from penstock.testing import Broker

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [content for named, content in fenced if named == language]


def test_the_example_of_a_test_passes(penstock: "Broker") -> None:
    [example] = blocks("python")
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    [test] = [value for name, value in names.items() if name.startswith("test_")]
    test(penstock)


def test_every_command_it_shows_works(penstock: "Broker") -> None:
    [session] = [block for block in blocks("") if block.startswith("penstock serve  ")]
    environment = {**os.environ, "PENSTOCK_BOOTSTRAP": penstock.bootstrap}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    # The fixture stands in for the first line; the last one looks into that line's directory.
    _, *lines, _ = session.splitlines()
    printed = []
    for line in lines:
        outcome = subprocess.run(
            line, shell=True, env=environment, capture_output=True, text=True, timeout=120
        )
        assert outcome.returncode == 0, (line, outcome.stderr)
        printed.append(outcome.stdout)
    assert "sku-1:3\n" in printed[2]


def test_the_map_names_every_package() -> None:
    [tree] = [block for block in blocks("") if block.startswith("src/penstock/")]
    mapped = set(re.findall(r"^  (\w+)/", tree, re.MULTILINE))
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert mapped == packages


def test_every_file_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_make_target_it_names_is_there_and_in_the_help() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", README, re.MULTILINE))
    targets = {first or second for first, second in named}
    assert {"demo", "test", "wheel"} <= targets
    [phony] = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert targets <= set(phony.split())
    assert [
        target for target in ("demo", "test", "wheel") if f'"make {target} ' not in makefile
    ] == []
