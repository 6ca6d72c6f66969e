"""Links of Markdown files: which lead nowhere. Pure but for reading the files.

A link leads to a file or a folder that is there, and an anchor to a heading of that file, by the
rule of GitHub and of the site alike. What is in code is no link.
"""

import re
from collections.abc import Iterable
from pathlib import Path

CODE = re.compile(r"^ *(```+|~~~+).*?^ *\1|``[^`].*?``|`[^`\n]+`", re.MULTILINE | re.DOTALL)
FENCES = re.compile(r"^ *(```+|~~~+).*?^ *\1", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
NAV_PAGE = re.compile(r"^ *- (?:[^:#]+: +)?([\w./-]+\.md)\s*$", re.MULTILINE)


def broken_links(files: Iterable[Path], root: Path) -> list[str]:
    """`file: link`, for each that leads nowhere."""
    return [
        f"{file.relative_to(root)}: {link}"
        for file in files
        for link in links_of(file.read_text(encoding="utf-8"))
        if not leads_somewhere(link, file)
    ]


def links_of(markdown: str) -> list[str]:
    """Those that stay in the tree."""
    text = CODE.sub("", markdown)
    found = [*INLINE.findall(text), *REFERENCE.findall(text)]
    return [link for link in found if not ELSEWHERE.match(link)]


def leads_somewhere(link: str, file: Path) -> bool:
    path, _, anchor = link.partition("#")
    target = file.parent / path if path else file
    if path.startswith("/") or not target.exists():
        return False
    if "#" not in link:
        return True
    return target.suffix == ".md" and anchor in anchors_of(target.read_text(encoding="utf-8"))


def anchors_of(markdown: str) -> set[str]:
    """A heading that is there twice has a number behind its second anchor; that is left out, since
    GitHub and the site number differently.
    """
    return {slug(heading) for heading in HEADING.findall(FENCES.sub("", markdown))}


def slug(heading: str) -> str:
    """Of what is shown: the text of links, code without its backticks."""
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    words = re.sub(r"[^\w\s-]", "", shown).strip().lower()
    return re.sub(r"\s", "-", words)


def pages_of_nav(configuration: str) -> list[str]:
    """The pages that mkdocs.yml lists, in order."""
    _, nav = re.split(r"^nav:\s*$", configuration, maxsplit=1, flags=re.MULTILINE)
    return NAV_PAGE.findall(nav)
