"""Nothing in the tree knows the machine it was written on; pins are names and versions."""

import re
import tomllib
from itertools import chain

import pytest

from rig.source_tree import ROOT, kept_files

PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*")
REQUIREMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

# Written in pieces, so that this file does not find itself.
MACHINE_PATHS = re.compile("/" + "(?:home|Users)/[a-z]|/" + r"root\b|/" + "work/|/" + "opt/")
REGISTRIES = re.compile(
    "--(?:extra-)?index" + "-url|--find" + "-links|--trusted" + "-host"
    r"|https?://[^\s\"'<>]*(?:pypi|simple/|artifact" + "ory|nexus|jfrog|devpi)"
)


def test_no_file_names_a_path_of_one_machine_or_a_registry() -> None:
    faults = []
    for path in kept_files():
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), start=1):
            if MACHINE_PATHS.search(line) or REGISTRIES.search(line):
                faults.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert not faults, "\n".join(faults)


def test_constraints_hold_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not PIN.fullmatch(line)] == []


@pytest.mark.parametrize("group", ["dependencies", "dev", "docs"])
def test_every_dependency_is_pinned(group: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project.get(group) or project["optional-dependencies"][group]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {canonical(pin.split("==")[0]) for pin in pins}
    assert {canonical(requirement_name(line)) for line in wanted} <= pinned


def test_requirements_leave_users_a_choice_of_versions() -> None:
    """Constraints pin them here; whoever installs Penstock has other packages beside it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    assert [line for line in wanted if "==" in line.partition(";")[0]] == []


def requirement_name(requirement: str) -> str:
    found = REQUIREMENT_NAME.match(requirement)
    assert found is not None, requirement
    return found.group()


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
