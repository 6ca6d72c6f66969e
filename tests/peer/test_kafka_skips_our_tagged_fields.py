"""Apache Kafka skips the tagged fields of our own, and acts on the rest of the message."""

from penstock.model.error import ErrorCode
from penstock.wire.messages.write_txn_markers import (
    MarkerSender,
    StoppedWriter,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from rig.apache_kafka.broker import ApacheKafka
from rig.dialogue import Dialogue

ANOTHER_EPOCH = 77


def test_markers_with_our_fields_are_written_by_kafka(apache_kafka: ApacheKafka) -> None:
    """A node of ours would refuse them, because they are for another leader epoch."""
    dialogue = Dialogue(apache_kafka.bootstrap, "markers-with-our-tags")
    dialogue.create_topic()
    topic = WritableTxnMarkerTopic(
        name=dialogue.topic, partition_indexes=[0], leader_epochs=[ANOTHER_EPOCH]
    )
    request = WriteTxnMarkersRequest(
        markers=[WritableTxnMarker(producer_id=7, producer_epoch=0, topics=[topic])],
        sender=MarkerSender(node_id=2, broker_epoch=3, request_number=1),
    )
    for version in (1, 2):
        reply = dialogue.exchange(request, version=version)
        [marker] = reply.markers
        [written] = marker.topics[0].partitions
        assert written.error_code == ErrorCode.NONE
    dialogue.close()


def test_kafka_acknowledges_no_stopped_writer(apache_kafka: ApacheKafka) -> None:
    """The request names no markers, so that nothing is done."""
    dialogue = Dialogue(apache_kafka.bootstrap, "stopped-writers")
    dialogue.create_topic()
    topic = WritableTxnMarkerTopic(name=dialogue.topic, partition_indexes=[0], leader_epochs=[0])
    stopped = StoppedWriter(producer_id=7, topics=[topic])
    reply = dialogue.exchange(WriteTxnMarkersRequest(stopped_writers=[stopped]), version=2)
    assert reply.markers == []
    assert reply.stopped_writers == []
    dialogue.close()
