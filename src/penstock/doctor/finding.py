"""What a check finds: a status, the reason in one line, and what mends it."""

import shlex
from collections.abc import Sequence
from enum import Enum

from penstock.model.lazy_dataclass import dataclass

REASONS_MAX = 3  # of so many faults the reason is told in the one line


class Status(Enum):
    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"  # the protocol does not show it, or it could not be asked


WORST_FIRST = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.PASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of `penstock` that mends a fault, when it is run as it is written."""

    verb: str  # such as "topics alter"
    names: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def words(self, also: Sequence[str] = ()) -> list[str]:
        """As they are typed in a shell; `also` are more options."""
        names = [quoted(name) for name in self.names]
        options = [quoted(option) for option in (*self.options, *also)]
        if any(name.startswith("-") for name in self.names):
            return ["penstock", *self.verb.split(), *options, "--", *names]
        return ["penstock", *self.verb.split(), *names, *options]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do where no command of `penstock` does it, or where one does it at a price or in
    part: that one stands at the end.
    """

    text: str
    command: Command | None = None

    def line(self, also: Sequence[str] = ()) -> str:
        """As it is told; `also` are more options of its command."""
        if self.command is None:
            return self.text
        return f"{self.text}: {' '.join(self.command.words(also))}"


Mend = Command | Advice


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong, or that cannot be known."""

    status: Status
    reason: str
    mend: Mend | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    check: str
    status: Status
    reason: str
    faults: tuple[Fault, ...] = ()

    @property
    def mends(self) -> tuple[Mend, ...]:
        return tuple(dict.fromkeys(fault.mend for fault in self.faults if fault.mend is not None))


def finding(check: str, faults: Sequence[Fault], *, passed: str) -> Finding:
    """The worst fault decides and is told first; without any, the check is passed."""
    ordered = sorted(faults, key=lambda fault: WORST_FIRST.index(fault.status))
    if not ordered:
        return Finding(check=check, status=Status.PASS, reason=passed)
    told = "; ".join(fault.reason for fault in ordered[:REASONS_MAX])
    more = len(ordered) - REASONS_MAX
    return Finding(
        check=check,
        status=ordered[0].status,
        reason=f"{told}; and {more} more" if more > 0 else told,
        faults=tuple(ordered),
    )


def warn(reason: str, mend: Mend | None = None) -> Fault:
    return Fault(status=Status.WARN, reason=reason, mend=mend)


def fail(reason: str, mend: Mend | None = None) -> Fault:
    return Fault(status=Status.FAIL, reason=reason, mend=mend)


def unknown(reason: str, mend: Mend | None = None) -> Fault:
    return Fault(status=Status.UNKNOWN, reason=reason, mend=mend)


def worst(findings: Sequence[Finding]) -> Status:
    return min((one.status for one in findings), key=WORST_FIRST.index, default=Status.PASS)


def quoted(word: str) -> str:
    """The word as a shell reads it; `$'...'` for characters that no terminal should get."""
    if word.isprintable():
        return shlex.quote(word)
    shown = []
    for one in word:
        if one in "\\'":
            shown.append(f"\\{one}")
        elif one.isprintable():
            shown.append(one)
        else:
            # Three octal digits: whatever comes next is no part of it.
            encoded = one.encode("utf-8", "surrogatepass")
            shown.append("".join(f"\\{byte:03o}" for byte in encoded))
    return f"$'{''.join(shown)}'"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
