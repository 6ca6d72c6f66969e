"""Members of groups on a cluster, of both protocols: each partition has one owner in an epoch.

A member reads what it is assigned, commits, now and then leaves and joins again, or stops polling
until its group goes on without it. What the coordinator tells it goes into the ownership history.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from penstock.client.consume.consumer import ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.group_consumer import GroupConsumer, GroupProtocol, GroupRules
from penstock.client.consume.membership.classic import ClassicMember
from penstock.client.consume.membership.modern import ModernMember
from penstock.client.network.errors import ClientError
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.model.identity import TopicPartition
from penstock.records.errors import CorruptBatch
from penstock.sim.cluster.clients import CLIENT_RULES, Client, WatchedCluster
from penstock.sim.cluster.coordination_plan import GroupPlan
from penstock.sim.cluster.history import ClusterHistory
from penstock.sim.cluster.layout import address
from penstock.sim.errors import Violation
from penstock.world.ports import World

POLLS_MAX = 30  # before a member leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """That of one member, by what its coordinator has told it."""

    client: str
    member_id: str


class Ownership:
    """Who was told, in which epoch of a group, that a partition is its own."""

    def __init__(self, history: ClusterHistory) -> None:
        self.claims = 0
        self._history = history
        self._owners: dict[tuple[str, int, TopicPartition], Claim] = {}

    def claimed(self, group: str, epoch: int, place: TopicPartition, claim: Claim) -> None:
        """An epoch is that of a member, or the generation of a classic group: in both one
        assignment is in force, and it is stored before anybody is told of it.
        """
        if any(lost.topic == OFFSETS_TOPIC for lost in self._history.may_have_lost):
            return
        known = self._owners.setdefault((group, epoch, place), claim)
        self.claims += 1
        if known != claim:
            raise Violation(
                "two owners", f"{place} belongs to {known.client} ({known.member_id}) and to"
                f" {claim.client} ({claim.member_id}) in epoch {epoch} of {group}",
            )  # fmt: skip


class GroupMemberClient(Client):
    def __init__(self, *arguments: Any, plan: GroupPlan, ownership: Ownership, **rest: Any) -> None:
        super().__init__(*arguments, **rest)
        self._plan = plan
        self._ownership = ownership

    async def main(self, world: World) -> None:
        bootstrap = [address(host) for host in self.hosts]
        async with WatchedCluster(
            world.network, world.clock, bootstrap, rules=CLIENT_RULES
        ) as cluster:
            while not self.ending:
                consumer = GroupConsumer(
                    cluster,
                    self._plan.group,
                    entropy=world.entropy,
                    topics=[self._plan.topic],
                    rules=rules_of(self._plan),
                )
                try:
                    async with consumer:
                        await self._belong(consumer)
                except ClientError as error:
                    self.note(f"is no member of {self._plan.group}: {error}")
                except CorruptBatch as error:
                    if not self.history.damaged:
                        raise Violation("readable", str(error)) from error
                await asyncio.sleep(self.chance.uniform(0.2, 2.0))

    async def _belong(self, consumer: GroupConsumer) -> None:
        for _ in range(self.chance.randint(3, POLLS_MAX)):
            if self.ending:
                return
            await consumer.poll(wait_ms=self.chance.choice((100, 500, 1_500)))
            self._look(consumer)

    def _look(self, consumer: GroupConsumer) -> None:
        """What the coordinator has told last: epoch and assignment come in one answer."""
        member = consumer.member
        assert isinstance(member, ClassicMember | ModernMember)
        committer = member.committer
        if committer is None or not member.target:
            return
        claim = Claim(client=self.name, member_id=member.member_id)
        for place in member.target:
            self._ownership.claimed(self._plan.group, committer.epoch, place, claim)


def rules_of(plan: GroupPlan) -> GroupRules:
    return GroupRules(
        protocol=GroupProtocol.CLASSIC if plan.is_classic else GroupProtocol.CONSUMER,
        auto_commit_ms=1_000,
        session_ms=6_000,
        heartbeat_ms=1_000,
        poll_ms_max=10_000,
        reading=ConsumerRules(
            reset=Reset.EARLIEST, request_ms_max=6_000, fetch=FetchRules(wait_ms_max=1_000)
        ),
    )
