"""WriteTxnMarkers: a coordinator, or one who ends what hangs, tells partitions how it ended.

Requests of other nodes name the leader epoch that each marker is meant for, and have a number: once
a later request of the same node is here, nothing more is written for the earlier one
(`transactions/marker_senders`). They may also stop writers (`coordinators/writer_stopping`).
"""

from itertools import zip_longest

from penstock.broker.coordinators.marker_sending import Written
from penstock.broker.partitions.waiting import all_acked
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.broker.request.yielding import Steps, go_on
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, ProducerEpoch, ProducerId, TopicPartition
from penstock.replication.marker import Marker
from penstock.transactions.marker_senders import Sender
from penstock.wire.api import ApiKey
from penstock.wire.messages.write_txn_markers import (
    MarkerSender,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

COMMIT_WAIT_MS_MAX = 30_000
NODE_COMMIT_WAIT_MS_MAX = 5_000  # of another node, which sends all others only after the reply
Errors = dict[TopicPartition, ErrorCode]
Waiting = tuple[Errors, TopicPartition, Written]  # where to note it when it is not committed
Marked = tuple[dict[int, Errors], list[Waiting]]


async def handle(
    services: Services, request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse:
    """The results of one producer stand together, however many markers are its own."""
    by_producer, waiting = await go_on(_write_all(services, request), None)
    stopped = await go_on(_stop_writers(services, request), None)
    last = {partition: offset for _, _, (partition, offset) in waiting}
    wait_ms = COMMIT_WAIT_MS_MAX if request.sender is None else NODE_COMMIT_WAIT_MS_MAX
    await all_acked(tuple(last.items()), all_acks=True, wait_ms=wait_ms)
    for errors, name, (partition, offset) in waiting:
        if partition.high_watermark < offset:
            ended = partition.has_ended
            errors[name] = (
                ErrorCode.NOT_LEADER_OR_FOLLOWER if ended else ErrorCode.REQUEST_TIMED_OUT
            )
    response = _response(by_producer)
    response.stopped_writers = _results(stopped)
    return response


def _stop_writers(services: Services, request: WriteTxnMarkersRequest) -> Steps[dict[int, Errors]]:
    by_producer: dict[int, Errors] = {}
    for stopped in request.stopped_writers:
        errors = by_producer.setdefault(stopped.producer_id, {})
        for name, leader_epoch in _partitions(stopped.topics).items():
            errors[name] = services.transactions.stop_writer(
                name, ProducerId(stopped.producer_id), leader_epoch=leader_epoch
            )
            yield
    return by_producer


def _write_all(services: Services, request: WriteTxnMarkersRequest) -> Steps[Marked]:
    by_producer: dict[int, Errors] = {}
    waiting: list[Waiting] = []
    sender = None if request.sender is None else _sender(request.sender)
    senders = services.transactions.marker_senders
    if sender is not None:
        senders.note(sender, services.image.brokers.get(sender.node_id))
    for asked in request.markers:
        errors = by_producer.setdefault(asked.producer_id, {})
        marker = Marker(
            producer_id=ProducerId(asked.producer_id),
            producer_epoch=ProducerEpoch(asked.producer_epoch),
            coordinator_epoch=asked.coordinator_epoch,
            committed=asked.transaction_result,
            transaction_version=asked.transaction_version,
        )
        for name, leader_epoch in _partitions(asked.topics).items():
            outcome: Written | ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER  # it may be sent again
            if sender is None or senders.is_latest(sender):
                outcome = services.transactions.write_marker(
                    name, marker, leader_epoch=leader_epoch
                )
            if isinstance(outcome, ErrorCode):
                errors[name] = outcome
            else:
                errors[name] = ErrorCode.NONE
                waiting.append((errors, name, outcome))
            yield
    return by_producer, waiting


def refuse(
    request: WriteTxnMarkersRequest, code: ErrorCode, message: str | None
) -> WriteTxnMarkersResponse:
    by_producer: dict[int, Errors] = {}
    for asked in request.markers:
        errors = by_producer.setdefault(asked.producer_id, {})
        errors.update(dict.fromkeys(_partitions(asked.topics), code))
    return _response(by_producer)


def _partitions(topics: list[WritableTxnMarkerTopic]) -> dict[TopicPartition, int | None]:
    """Each once: a second marker of the same would end nothing. With the epoch of the leader that
    the marker is meant for, where the sender names it.
    """
    return {
        TopicPartition(topic.name, index): leader_epoch
        for topic in topics
        for index, leader_epoch in zip_longest(
            topic.partition_indexes, topic.leader_epochs[: len(topic.partition_indexes)]
        )
    }


def _sender(named: MarkerSender) -> Sender:
    return Sender(
        node_id=NodeId(named.node_id),
        broker_epoch=named.broker_epoch,
        request_number=named.request_number,
    )


def _response(by_producer: dict[int, Errors]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=_results(by_producer))


def _results(by_producer: dict[int, Errors]) -> list[WritableTxnMarkerResult]:
    return [
        WritableTxnMarkerResult(producer_id=producer_id, topics=_by_topic(errors))
        for producer_id, errors in by_producer.items()
    ]


def _by_topic(errors: Errors) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), error in errors.items():
        result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
        topics.setdefault(topic, []).append(result)
    return [
        WritableTxnMarkerTopicResult(name=topic, partitions=results)
        for topic, results in topics.items()
    ]


API = Api(
    key=ApiKey.WRITE_TXN_MARKERS,
    versions=WriteTxnMarkersRequest.VERSIONS,
    request=WriteTxnMarkersRequest,
    handle=handle,
    refuse=refuse,
)
