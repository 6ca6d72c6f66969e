"""Which errors a response counts for."""

from penstock.broker.request.response_errors import error_codes
from penstock.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def test_every_error_of_a_fetch_counts_its_own_and_those_of_partitions() -> None:
    answered = [
        FetchableTopicResponse(
            partitions=[PartitionData(error_code=3), PartitionData(), PartitionData(error_code=6)]
        ),
        FetchableTopicResponse(partitions=[PartitionData(error_code=3)]),
    ]
    assert error_codes(FetchResponse(responses=answered)) == [3, 6, 3]
    assert error_codes(FetchResponse(error_code=70)) == [70]
    assert error_codes(FetchResponse()) == []


def test_every_error_of_another_response_counts_wherever_it_stands() -> None:
    partitions = [MetadataResponsePartition(error_code=5), MetadataResponsePartition()]
    topics = [
        MetadataResponseTopic(error_code=3),
        MetadataResponseTopic(partitions=partitions),
    ]
    assert error_codes(MetadataResponse(topics=topics)) == [3, 5]
