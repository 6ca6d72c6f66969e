"""Links of all documents lead somewhere, and the site has every page."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from rig.document_links import anchors_of, broken_links, links_of, pages_of_nav
from rig.source_tree import ROOT

DOCS = ROOT / "docs"
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
    ROOT / "bench" / "README.md",
    ROOT / "tests" / "rig" / "README.md",
]
NAV = pages_of_nav((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """The hook of the site."""
    spec = importlib.util.spec_from_file_location("pages", DOCS / "site" / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_link_leads_to_a_file_or_a_heading() -> None:
    assert sum(len(links_of(file.read_text(encoding="utf-8"))) for file in DOCUMENTS) > 100
    assert broken_links(DOCUMENTS, ROOT) == []


@pytest.mark.parametrize(
    "link",
    [
        "nothing.md",
        "other.md#nowhere",
        "#not-here",
        "../nothing/",
        "other.md#Two-words",
        "picture.svg#part",
        "/other.md",
    ],
)
def test_a_link_that_leads_nowhere_is_found(link: str, tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Other\n\n## Two words\n")
    (tmp_path / "picture.svg").write_text("<svg/>")
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\nSee [this]({link}) and [that](other.md#two-words).\n")
    assert broken_links([page], tmp_path) == [f"page.md: {link}"]


def test_code_has_no_links_and_no_headings(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```\n[a](gone.md)\n# no heading\n```\n\n`[b](gone.md)` [c](#page)\n")
    assert broken_links([page], tmp_path) == []
    assert anchors_of(page.read_text()) == {"page"}


def test_addresses_elsewhere_are_not_looked_up() -> None:
    assert links_of("[a](https://example.org/x) [b](mailto:x) [c](d.md)") == ["d.md"]


def test_every_page_is_in_the_site_once(pages: ModuleType) -> None:
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    listed = [*NAV, *pages.decisions()]
    made = [pages.OUTSIDE[source] for source in pages.GENERATED]
    assert sorted(listed) == sorted({*there, *made})


def test_pages_from_outside_of_the_folder_are_there(pages: ModuleType) -> None:
    assert [source for source in pages.OUTSIDE if not (ROOT / source).exists()] == []


def test_links_of_the_tree_become_links_of_the_site(pages: ModuleType) -> None:
    def turned(text: str, source: str, page: str) -> str:
        told: str = pages.with_links_of_the_site(text, source=source, page=page)
        return told

    assert turned("[a](../bench/README.md)", "docs/x.md", "x.md") == "[a](measurements.md)"
    assert turned("[a](docs/tls.md#trying)", "README.md", "index.md") == "[a](tls.md#trying)"
    assert turned("[a](../docs/adr)", "bench/README.md", "m.md") == "[a](adr/README.md)"
    assert turned("[a](../tls.md)", "docs/adr/1.md", "adr/1.md") == "[a](../tls.md)"
    assert turned("[code](../src/x.py) stays", "docs/x.md", "x.md") == "code stays"
    assert turned("![p](cluster.svg)", "docs/x.md", "x.md") == "![p](cluster.svg)"
    assert turned("[a](https://x.org/y)", "docs/x.md", "x.md") == "[a](https://x.org/y)"
    assert turned("```\n[a](b.py)\n```", "docs/x.md", "x.md") == "```\n[a](b.py)\n```"


def test_what_belongs_to_a_step_stays_in_it_on_the_site(pages: ModuleType) -> None:
    step = "1. Do:\n   ```\n   a\n\n     b\n   ```\n   and\n2. Then\n"
    moved = "1. Do:\n\n    ```\n    a\n\n      b\n    ```\n\n    and\n\n2. Then\n"
    assert pages.with_steps_of_the_site(step) == moved
    table = "1. See:\n   | a |\n   |---|\n2. Then"
    moved = "1. See:\n\n    | a |\n    |---|\n\n2. Then"
    assert pages.with_steps_of_the_site(table) == moved
    apart = "text\n\n    code\n\n```\n   c\n1. d\n```\n- e\n  f\n"
    assert pages.with_steps_of_the_site(apart) == apart


def test_no_list_follows_a_paragraph_without_an_empty_line() -> None:
    """GitHub shows a list there, the site a paragraph."""
    found = []
    for page in sorted(DOCS.rglob("*.md")):
        text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for before, line in zip(text.split("\n"), text.split("\n")[1:], strict=False):
            begins = re.match(r"(?:[-*]|1\.) ", line)
            if begins and before.strip() and not re.match(r"[-*] |\d+\. | ", before):
                found.append(f"{page.relative_to(ROOT)}: {line}")
    assert found == []
