"""Every request is answered: a tap on the wire counts, whatever clients make of silence."""

from penstock.sim.errors import Violation
from penstock.sim.wire import Wire

ANSWER_MS_MAX = 9_000  # below what clients wait, who would end the connection and with it the proof


def check_answers(wire: Wire, *, answer_ms_max: int = ANSWER_MS_MAX) -> None:
    link = wire.overdue(older_than_ms=answer_ms_max)
    if link is not None:
        raise Violation(
            "answers",
            f"{link.client} on connection {link.number} to {link.server} has waited for"
            f" {answer_ms_max} ms, {len(link.unanswered)} requests unanswered",
        )
