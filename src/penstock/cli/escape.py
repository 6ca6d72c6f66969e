"""Text from outside, made safe for a terminal.

Names of groups, clients and transactions, keys, values and error messages are whatever somebody
sent. Printed raw, a control character could move the cursor, hide a line or give the terminal a
command, and a newline could forge a row of a table.
"""


def escaped(text: str) -> str:
    """The text in one line; each character that is not printable is written as Python would."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def escaped_bytes(content: bytes) -> str:
    """The same for bytes that may be UTF-8; a tab stays a tab."""
    text = content.decode("utf-8", "backslashreplace")
    return "\t".join(map(escaped, text.split("\t")))


def escaped_json(text: str) -> str:
    """JSON of one or more lines. JSON itself escapes most control characters, but not all."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else _in_json(one) for one in text)


def _in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
