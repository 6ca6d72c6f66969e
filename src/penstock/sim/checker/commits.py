"""An acked commit stands, and no offset goes back, until a power loss takes what was not synced."""

from collections.abc import Mapping

from penstock.client.consume.group_offsets import Committed, committed_offsets
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused
from penstock.model.identity import TopicPartition
from penstock.sim.errors import Violation
from penstock.sim.history import History


async def check_commits(history: History, coordinators: Coordinators) -> None:
    for group in sorted(history.commits):
        await check_group(history, group, coordinators)


async def check_group(history: History, group: str, coordinators: Coordinators) -> None:
    """What is read must be right, and what is right stands from now on."""
    starts = history.starts
    found = await committed_offsets(coordinators, group)
    check_found(history, group, found)
    if history.starts == starts:
        for place, known in history.commits[group].items():
            known.look(_offset(found.get(place)))


def check_found(
    history: History, group: str, found: Mapping[TopicPartition, Committed | Refused]
) -> None:
    for place, known in sorted(history.commits[group].items()):
        told = found.get(place)
        if isinstance(told, Refused):
            raise Violation("commits", f"{group} is not told about {place}: {told}")
        offset = _offset(told)
        if not known.may_be(offset):
            raise Violation(
                "commits",
                f"{group} has {offset} for {place}; {known.acked} was acked last,"
                f" and {sorted({asked.offset for asked in known.unclear})} are not clear",
            )


def _offset(told: Committed | Refused | None) -> int | None:
    return int(told.offset) if isinstance(told, Committed) else None
