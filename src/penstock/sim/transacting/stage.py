"""The set-up of transactions in a simulation, who takes part, and the judgement in the end."""

import asyncio
from collections.abc import Mapping
from functools import partial

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.admin.configs import Change, Resource, alter_configs
from penstock.client.consume.group_offsets import Committed, committed_offsets
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Producer, ProducerRules
from penstock.log.partition_log import PartitionLog
from penstock.model.configs import Operation, ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.sim.checker.transactions import check_fencing, check_transactions
from penstock.sim.client_process import Work
from penstock.sim.errors import Violation
from penstock.sim.reading import read_all
from penstock.sim.transacting.application import Ends, transact
from penstock.sim.transacting.lab import TransactionLab
from penstock.sim.transacting.plan import TransactionPlan
from penstock.sim.transacting.witness import watch
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

TRANSACTION_KEY = 1
SMALL_BATCHES = ProducerRules(batches=BatchRules(batch_bytes_max=1_000))
QUIET_MS_MAX = 20_000  # beyond every time-out of a transaction
OPEN_STATES = ["Ongoing", "PrepareCommit", "PrepareAbort"]


async def set_up(
    lab: TransactionLab, cluster: Cluster, plan: TransactionPlan, *, replicas: int = 1
) -> None:
    """Topics, the coordinator's own, and all that the source will ever hold."""
    admin = Admin(cluster)
    told = await admin.create_topics(
        NewTopic(
            name=topic.name,
            partitions=topic.partitions,
            replicas=replicas,
            settings=topic.settings,
        )
        for topic in plan.topics
    )
    first_refusal(told.values())
    await _make_state_topic(cluster)
    resource = Resource(ResourceKind.TOPIC, TRANSACTION_TOPIC)
    changes = [
        Change(name=name, operation=Operation.SET, value=value)
        for name, value in plan.state_settings.items()
    ]
    if changes:
        first_refusal((await alter_configs(cluster, {resource: changes})).values())
    async with Producer(cluster, rules=SMALL_BATCHES) as producer:
        deliveries = []
        for place in plan.source.places:
            for number in range(plan.inputs):
                sent = lab.history.send(
                    producer=f"source.{place.partition}",
                    number=number,
                    topic=place.topic,
                    key=b"%d" % number,
                )
                delivery = await producer.send(
                    place.topic,
                    sent.value,
                    key=sent.key,
                    headers=sent.headers,
                    partition=place.partition,
                )
                deliveries.append((place, sent, delivery))
        await producer.flush()
        for place, sent, delivery in deliveries:
            lab.history.ack(sent, place, delivery.result().offset)


def works(plan: TransactionPlan, ends: Ends) -> list[tuple[str, Work]]:
    """Who takes part, by name."""
    found: list[tuple[str, Work]] = [("witness", watch)]
    for application in plan.applications:
        for instance in range(application.instances):
            name = f"{application.transactional_id}-{'abc'[instance]}"
            found.append((name, partial(transact, application, ends)))
    return found


async def judge(
    lab: TransactionLab,
    cluster: Cluster,
    plan: TransactionPlan,
    logs: Mapping[TopicPartition, PartitionLog],
) -> None:
    """After all trouble: everything has ended, and ended whole."""
    history = lab.history.transactions
    if history.nothing_promised:
        return
    await _until_quiet(cluster, plan)
    compacted = frozenset(topic.name for topic in plan.topics if "cleanup.policy" in topic.settings)
    read = await read_all(
        cluster,
        list(plan.places),
        compacted=compacted,
        partition_bytes_max=1_000,
        isolation=Isolation.READ_COMMITTED,
    )
    offsets = {
        application.transactional_id: await _offsets(cluster, application.transactional_id)
        for application in plan.applications
        if application.reads
    }
    check_transactions(lab.history, read, offsets)
    check_fencing(history, logs)


async def _make_state_topic(cluster: Cluster) -> None:
    """The first question for a coordinator makes the topic."""
    request = FindCoordinatorRequest(
        key="setup", key_type=TRANSACTION_KEY, coordinator_keys=["setup"]
    )
    while True:
        reply = await cluster.ask_any(request, FindCoordinatorResponse)
        if reply.coordinators[0].error_code == ErrorCode.NONE:
            return
        await asyncio.sleep(0.05)


async def _until_quiet(cluster: Cluster, plan: TransactionPlan) -> None:
    """No transaction is open, and readers of what is committed are held back by none."""
    deadline_ms = cluster.clock.monotonic_ms() + QUIET_MS_MAX
    if not cluster.view.brokers:
        await cluster.refresh()
    while True:
        listed = await _open_transactions(cluster)
        stable = await offsets_of(
            cluster, plan.places, When.LATEST, isolation=Isolation.READ_COMMITTED
        )
        ends = await offsets_of(cluster, plan.places, When.LATEST)
        held = [f"{p} at {stable[p]}" for p in plan.places if stable[p] < ends[p]]
        if not listed and not held:
            return
        if cluster.clock.monotonic_ms() > deadline_ms:
            raise Violation(
                "stable offset",
                f"after {QUIET_MS_MAX} ms without trouble these are open: {listed}, and these are"
                f" held back: {held}",
            )
        await asyncio.sleep(0.2)


async def _open_transactions(cluster: Cluster) -> list[str]:
    """Of all coordinators; an error of one of them counts as an open one."""
    found = []
    for node_id in sorted(cluster.view.brokers):
        request = ListTransactionsRequest(state_filters=OPEN_STATES)
        reply = await cluster.ask(node_id, request, ListTransactionsResponse)
        if reply.error_code != ErrorCode.NONE:
            found.append(f"error {reply.error_code} of node {node_id}")
        found.extend(state.transactional_id for state in reply.transaction_states)
    return found


async def _offsets(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    """What a group has committed, which no transaction is about to change any more."""
    found: dict[TopicPartition, int] = {}
    for place, told in (await committed_offsets(Coordinators(cluster), group, stable=True)).items():
        if not isinstance(told, Committed):
            raise Violation("transaction offsets", f"{group} is not told about {place}: {told}")
        found[place] = int(told.offset)
    return found
