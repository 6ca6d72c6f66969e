"""What an object store's errors say, in one line each. Pure.

`deltalake` tells a chain of causes, one a line with arrows and colours, and a store answers in XML.
"""

import re

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
ARROW = "↳"
ANSWER = re.compile(r"<Code>(?P<code>[^<]*)</Code>\s*<Message>(?P<message>[^<]*)</Message>")


def is_of_store(error: Exception) -> bool:
    """Whether the store failed, rather than what was asked of the table."""
    return isinstance(error, OSError) or "object store" in str(error)


def one_line(error: Exception) -> str:
    """The store's own words where it answered, else what went wrong and its first cause."""
    text = COLOURS.sub("", str(error)).strip()
    answer = ANSWER.search(text)
    if answer is not None:
        return f"{answer['code']}: {answer['message']}"
    first, *rest = text.splitlines() or [""]
    causes = [line.strip().removeprefix(ARROW).strip() for line in rest if ARROW in line]
    return f"{first}: {causes[-1]}" if causes else first
