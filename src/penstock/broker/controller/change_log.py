"""Logs what the active controller has decided about brokers and partitions, and why. Elections are
also counted, where metrics are told.
"""

import logging
from collections import Counter
from collections.abc import Iterable

from penstock.metadata.controller.decide import ControllerRequest
from penstock.metadata.controller.explained import (
    BrokerBecame,
    BrokerChanged,
    ChangesLeftOut,
    Explained,
    PartitionChanged,
    Why,
    explained,
)
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.records import MetadataRecord
from penstock.model.events import (
    BROKER_FENCED,
    BROKER_REGISTERED,
    BROKER_SHUTS_DOWN,
    BROKER_UNFENCED,
    CHANGES_LEFT_OUT,
    ISR_EXPANDED,
    ISR_SHRUNK,
    LEADER_CHANGED,
    LEADERLESS,
    UNCLEAN_ELECTION,
)
from penstock.world.event_log import tell

logger = logging.getLogger(__name__)


class Decided:
    """An effect of a decision, which is logged when its records are committed."""

    __slots__ = ("changes",)

    def __init__(self, changes: tuple[Explained, ...]) -> None:
        self.changes = changes


def decided(
    state: ControllerState,
    request: ControllerRequest,
    records: Iterable[MetadataRecord],
    *,
    is_counted: bool,
) -> tuple[Decided, ...]:
    """What there is to log of a decision that is not applied yet."""
    if not is_counted and not logger.isEnabledFor(logging.WARNING):
        return ()
    changes = tuple(explained(state, request, records))
    return (Decided(changes),) if changes else ()


def count_elections(effect: object, counts: Counter[Why]) -> None:
    """Those by which a partition got another leader, or one after it had none."""
    assert isinstance(effect, Decided), effect
    for change in effect.changes:
        match change:
            case PartitionChanged():
                if change.leader is not None and change.leader != change.old_leader:
                    counts[change.why] += 1
            case ChangesLeftOut():
                counts[change.why] += change.leaders


def log_decided(effect: object) -> None:
    assert isinstance(effect, Decided), effect
    for change in effect.changes:
        match change:
            case BrokerChanged():
                _log_broker(change)
            case PartitionChanged():
                _log_partition(change)
            case ChangesLeftOut():
                tell(
                    logger,
                    CHANGES_LEFT_OUT,
                    leaders=change.leaders,
                    unclean=change.unclean,
                    offline=change.offline,
                    in_sync_sets=change.in_sync,
                    reason=change.why.value,
                    broker=change.broker,
                )


def _log_broker(change: BrokerChanged) -> None:
    broker, epoch = change.broker, change.broker_epoch
    match change.became:
        case BrokerBecame.REGISTERED:
            tell(
                logger,
                BROKER_REGISTERED,
                broker=broker,
                broker_epoch=epoch,
                previous_epoch=change.previous_epoch,
            )
        case BrokerBecame.FENCED:
            assert change.why is not None, change
            reason = "broker_asked" if change.why is Why.BROKER_FENCED else change.why.value
            tell(logger, BROKER_FENCED, broker=broker, broker_epoch=epoch, reason=reason)
        case BrokerBecame.UNFENCED:
            tell(logger, BROKER_UNFENCED, broker=broker, broker_epoch=epoch)
        case BrokerBecame.SHUTTING_DOWN:
            tell(logger, BROKER_SHUTS_DOWN, broker=broker, broker_epoch=epoch)


def _log_partition(change: PartitionChanged) -> None:
    why = change.why.value
    if change.left:
        tell(
            logger,
            ISR_SHRUNK,
            partition=change.partition,
            left=change.left,
            isr=change.isr,
            min_insync=change.min_insync,
            leader=change.leader,
            reason=why,
            broker=change.broker,
        )
    if change.joined:
        tell(
            logger,
            ISR_EXPANDED,
            partition=change.partition,
            joined=change.joined,
            isr=change.isr,
            min_insync=change.min_insync,
            leader=change.leader,
            reason=why,
            broker=change.broker,
        )
    if not change.led_anew:
        return
    if change.leader is None:
        tell(
            logger,
            LEADERLESS,
            partition=change.partition,
            old_leader=change.old_leader,
            leader_epoch=change.leader_epoch,
            isr=change.isr,
            reason=why,
            broker=change.broker,
        )
        return
    tell(
        logger,
        UNCLEAN_ELECTION if change.is_unclean else LEADER_CHANGED,
        partition=change.partition,
        old_leader=change.old_leader,
        leader=change.leader,
        leader_epoch=change.leader_epoch,
        isr=change.isr,
        reason=why,
        broker=change.broker,
    )
