"""What the site has beyond the pages that mkdocs.yml lists: decisions, by their numbers, and pages
that lie outside of docs/. A hook of mkdocs; `make docs` runs it.

Pages are written for those who read the files in the tree. Links that lead to a page of the site
are turned so that they do there too; of those that lead to code only the text stays. What belongs
to a numbered step is moved in by one more space, since the Markdown of the site wants four.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs/"
DECISIONS = "Decisions"
# Where each is in the tree, and its address in the site.
OUTSIDE = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "bench/README.md": "measurements.md",
    "docs/adr": "adr/README.md",
}
GENERATED = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
STEP = "   "  # before what belongs to `1. `
FENCED = re.compile(r"(^ {0,3}```.*?^ {0,3}```|^ {4}.*?$)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Decisions follow their overview, in the order of their numbers."""
    for section in config["nav"]:
        for pages in section.values():
            if isinstance(pages, list):
                _list_decisions(pages)
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File  # noqa: PLC0415 - tests read this without mkdocs

    for source in GENERATED:
        text = (ROOT / source).read_text("utf-8")
        page = OUTSIDE[source]
        content = with_steps_of_the_site(with_links_of_the_site(text, source=source, page=page))
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    path = page.file.src_uri
    if path in OUTSIDE.values() and path not in ("index.md", "adr/README.md"):
        return markdown  # was turned when it was made
    turned = with_links_of_the_site(markdown, source=DOCS + path, page=path)
    return with_steps_of_the_site(turned)


def decisions() -> list[str]:
    """Pages of docs/adr, by number."""
    found = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    return [f"adr/{path.name}" for path in found]


def with_links_of_the_site(markdown: str, *, source: str, page: str) -> str:
    """The text of a file of the tree as that of a page of the site."""

    def turned(found: re.Match[str]) -> str:
        text, target, anchor = found.group(1), found.group(2), found.group(3) or ""
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if meant in OUTSIDE:
            address = OUTSIDE[meant]
        elif meant.startswith(DOCS) and meant.endswith(".md"):
            address = meant.removeprefix(DOCS)
        else:
            return text
        return f"[{text}]({posixpath.relpath(address, posixpath.dirname(page) or '.')}{anchor})"

    parts = FENCED.split(markdown)
    return "".join(
        part if index % 2 else LINK.sub(turned, part) for index, part in enumerate(parts)
    )


def with_steps_of_the_site(markdown: str) -> str:
    """Lines that belong to a numbered step have four spaces; code and tables in it stand apart."""
    lines: list[str] = []
    fence: str | None = None  # the spaces before the code block that we are in
    for line in markdown.split("\n"):
        rest = line.lstrip(" ")
        spaces = line[: len(line) - len(rest)]
        if rest.startswith("```"):
            begins = fence is None
            if begins and spaces == STEP and lines and lines[-1].strip():
                lines.append("")
            lines.append(line if (spaces if begins else fence) != STEP else f" {line}")
            if not begins and fence == STEP:
                lines.append("")
            fence = spaces if begins else None
        elif fence is not None:
            lines.append(f" {line}" if fence == STEP and rest else line)
        else:
            before = lines[-1] if lines else ""
            step_ends = re.match(r"\d+\. ", line) and before.startswith(STEP)
            table_begins = line.startswith(f"{STEP}|") and not before.strip().startswith("|")
            if step_ends or (table_begins and before.strip()):
                lines.append("")
            lines.append(f" {line}" if spaces == STEP and rest else line)
    return "\n".join(lines)


def _list_decisions(pages: list[Any]) -> None:
    for index, entry in enumerate(pages):
        if isinstance(entry, dict) and DECISIONS in entry:
            pages[index] = {DECISIONS: [entry[DECISIONS], *decisions()]}
