"""What a seed of a cluster asks of coordinators: applications in transactions, and groups."""

from dataclasses import dataclass
from random import Random

from penstock.sim.transacting.plan import (
    ACK_FSYNC,
    SOURCE,
    Application,
    Style,
    TransactionPlan,
    TransactionTopic,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    group: str
    topic: str
    is_classic: bool  # else of KIP-848
    members: int


def draw_applications(chance: Random, *, nodes: int, acks_last: bool) -> TransactionPlan:
    settings = {
        "internal.segment.bytes": str(chance.choice((1_500, 100_000))),
        ACK_FSYNC: str(acks_last).lower(),
    }
    topics = tuple(
        TransactionTopic(name=name, partitions=partitions, settings=settings)
        for name, partitions in ((SOURCE, chance.choice((1, 2))), ("tx-target", nodes))
    )
    count = chance.choice((1, 2, 2))
    return TransactionPlan(
        topics=topics,
        applications=tuple(_application(chance, number) for number in range(count)),
        state_settings={},
        inputs=120,
        acks_last=acks_last,
    )


def _application(chance: Random, number: int) -> Application:
    style = chance.choice(
        (Style.GENERATION_1, Style.GENERATION_2, Style.GENERATION_2, Style.TWO_PHASE)
    )
    # One of generation 1 cannot tell a late request of its last transaction from one of the next.
    request_ms_max = 30_000 if style is Style.GENERATION_1 else chance.choice((300, 1_500, 30_000))
    return Application(
        transactional_id=f"app-{number}",
        style=style,
        instances=chance.choice((1, 2, 2, 3)),
        reads=chance.random() < 0.6,
        timeout_ms=chance.choice((1_500, 5_000)),
        request_ms_max=request_ms_max,
        stall_chance=chance.choice((0.0, 0.05, 0.2)),
        pause_ms=chance.choice((100, 600)),
        write_pause_ms=chance.choice((0, 0, 800)),
    )


def draw_groups(chance: Random, *, topic: str) -> tuple[GroupPlan, ...]:
    """One of each protocol, or one of them."""
    kinds = chance.choice(((True,), (False,), (True, False)))
    return tuple(
        GroupPlan(
            group=f"{'classic' if is_classic else 'modern'}-group",
            topic=topic,
            is_classic=is_classic,
            members=chance.choice((2, 3)),
        )
        for is_classic in kinds
    )
