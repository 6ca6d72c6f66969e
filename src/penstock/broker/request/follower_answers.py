"""What a follower is told of its partitions, as a message."""

from penstock.broker.request.fetch_answers import EMPTY
from penstock.replication.follower_session import Followed
from penstock.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.wire.replica_fetch import Answer


def response_of(
    answers: list[tuple[Followed, PartitionData | Answer]], *, session_id: int
) -> FetchResponse:
    response = FetchResponse(session_id=session_id)
    topic: FetchableTopicResponse | None = None
    key: bytes | str = EMPTY
    for followed, answer in answers:
        if topic is None or followed.key[0] != key:
            key = followed.key[0]
            topic = FetchableTopicResponse(topic=followed.topic, topic_id=followed.topic_id)
            response.responses.append(topic)
        topic.partitions.append(data_of(answer) if isinstance(answer, Answer) else answer)
    return response


def data_of(answer: Answer) -> PartitionData:
    return PartitionData(
        partition_index=answer.index,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.start_offset,
        aborted_transactions=None,
        records=EMPTY if answer.records is None else answer.records,
    )
