"""An acked commit stands, and no offset goes back, until a power loss takes what was not synced."""

from collections.abc import Mapping

from penstock.client.coordinators import Coordinators
from penstock.client.group_offsets import Committed, committed_offsets
from penstock.client.trouble import Refused
from penstock.model.identity import TopicPartition
from penstock.sim.history import History
from penstock.sim.trouble import Violation


async def check_commits(history: History, coordinators: Coordinators) -> None:
    for group in sorted(history.commits):
        check_group(history, group, await committed_offsets(coordinators, group))


def check_group(
    history: History, group: str, found: Mapping[TopicPartition, Committed | Refused]
) -> None:
    for place, known in sorted(history.commits[group].items()):
        told = found.get(place)
        if isinstance(told, Refused):
            raise Violation("commits", f"{group} is not told about {place}: {told}")
        offset = None if told is None else int(told.offset)
        if not known.may_be(offset):
            raise Violation(
                "commits",
                f"{group} has {offset} for {place}; {known.acked} was acked last,"
                f" and {sorted(known.unclear)} are not clear",
            )
