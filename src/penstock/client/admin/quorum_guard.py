"""Whether the voters that are left without one of them would be able to elect and commit. Pure.

A removal counts as soon as the leader has appended it: if most of the voters that are left are
dead, it is never committed, and nobody can be elected.
"""

from penstock.client.admin.quorum import Quorum
from penstock.client.network.errors import ClientError
from penstock.model.identity import NodeId

SILENT_MS_MAX = 5_000  # followers fetch at least every half second


class MajorityLost(ClientError):
    """Most of the voters that would be left do not live."""


def silent_voters(quorum: Quorum) -> list[NodeId]:
    """Those that have not fetched for some seconds, by the leader's clock; empty if it does not
    tell when voters fetched.
    """
    fetched = [
        one.fetched_ms for one in (*quorum.voters, *quorum.observers) if one.fetched_ms is not None
    ]
    if not fetched:
        return []
    silent_before_ms = max(fetched) - SILENT_MS_MAX
    return [
        one.node_id
        for one in quorum.voters
        if one.node_id != quorum.leader_id
        and (one.fetched_ms is None or one.fetched_ms < silent_before_ms)
    ]


def majority_lost(quorum: Quorum, leaving: NodeId) -> MajorityLost | None:
    """Why this voter must stay. The leader itself refuses to remove the last one."""
    left = [one.node_id for one in quorum.voters if one.node_id != leaving]
    silent = [node for node in silent_voters(quorum) if node != leaving]
    if not left or 2 * (len(left) - len(silent)) > len(left):
        return None
    return MajorityLost(
        f"controller {leaving} must stay: without it {_listed(left)} vote, of which"
        f" {_listed(silent)} did not fetch in the last {SILENT_MS_MAX // 1000} s, and the others"
        " are no majority: remove one that is dead first, or give --force"
    )


def _listed(nodes: list[NodeId]) -> str:
    return ",".join(map(str, nodes))
