"""Principals: who is on the other end of a connection, in Kafka's form `User:alice`.

A connection is `User:ANONYMOUS` until it has authenticated, and stays so on listeners without
authentication.
"""

from dataclasses import field

from penstock.model.lazy_dataclass import dataclass

USER = "User"
SEPARATOR = ":"


class InvalidPrincipal(ValueError):
    """A text that is not of the form `Type:name`."""

    def __init__(self, text: str) -> None:
        super().__init__(f"expected a principal of the form User:name, found {text!r}")
        self.text = text


@dataclass(frozen=True, slots=True)
class Principal:
    """A kind, in practice always `User`, and a name, which may contain colons. Whether it came in
    by a delegation token matters to no right, but to requests for tokens.
    """

    kind: str
    name: str
    token_authenticated: bool = field(default=False, compare=False)

    # Written out, since one is looked up for every request: those of a dataclass stay in Python.
    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Principal) and self.name == other.name and self.kind == other.kind

    def __str__(self) -> str:
        return f"{self.kind}{SEPARATOR}{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """`User:alice`; raises InvalidPrincipal."""
        kind, separator, name = text.partition(SEPARATOR)
        if not kind or not separator or not name:
            raise InvalidPrincipal(text)
        return cls(kind, name)


ANONYMOUS = Principal(USER, "ANONYMOUS")
