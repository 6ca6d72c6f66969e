"""CONTRIBUTING.md, ARCHITECTURE.md and the page about test brokers name files that exist."""

import re
from pathlib import Path

import pytest

from rig.source_tree import PACKAGE, ROOT

GUIDES = (ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", ROOT / "tests" / "rig" / "README.md")
# What the examples make.
MADE_BY_THE_READER = ("unregister_broker", "pipelines/shout")
# A path in code or in a drawing: at least one slash, or the name of a file with its ending.
PATH = re.compile(
    r"(?<![\w/.-])(?:[a-z_]+/)+[a-z_]+(?:\.\w+)?/?|(?<![\w/.-])[a-z_]+\.(?:py|toml|txt)\b"
)
NOT_PATHS = {"and/or"}


def is_there(name: str, guide: Path) -> bool:
    """Beside the guide, from the root, in the package or its part for Spark; a file anywhere."""
    bare = name.rstrip("/")
    starts = (guide.parent, ROOT, PACKAGE, PACKAGE / "spark")
    if any((start / end).exists() for start in starts for end in (bare, f"{bare}.py")):
        return True
    return "/" not in bare and any(PACKAGE.rglob(bare))


def code_of(guide: Path) -> str:
    """What stands in code, in blocks or in backticks."""
    text = guide.read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: str(guide.relative_to(ROOT)))
def test_every_file_that_is_named_is_there(guide: Path) -> None:
    named = set(PATH.findall(code_of(guide))) - NOT_PATHS
    made = {name for name in named if any(part in name for part in MADE_BY_THE_READER)}
    assert len(named) > 10
    assert sorted(name for name in named - made if not is_there(name, guide)) == []


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: str(guide.relative_to(ROOT)))
def test_every_file_that_is_linked_to_is_there(guide: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", guide.read_text(encoding="utf-8"))
    assert [link for link in links if not (guide.parent / link).exists()] == []
