"""A batch can be followed from its producer to every replica, over three nodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from rig.served_cluster import ServedCluster
from rig.trace_receiver import ReceivedSpan, TraceReceiver, trace_receiver

WAIT_SECONDS = 60
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"
VALUE = b"order" * 100  # worth compressing
LEADERS_PARTS = ["queue", "append", "replicas", "send"]


@pytest.fixture(scope="module")
def receiver() -> Iterator[TraceReceiver]:
    with trace_receiver() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, receiver: TraceReceiver
) -> Iterator[ServedCluster]:
    with ServedCluster(
        tmp_path_factory.mktemp("traced"),
        penstock_tracing_endpoint=receiver.url,
        penstock_tracing_sample="1",
    ) as made:
        made.start()
        yield made


def create(cluster: ServedCluster, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    [made] = admin.create_topics([NewTopic(topic, partitions, 3)]).values()
    made.result(WAIT_SECONDS)


def of_topic(spans: list[ReceivedSpan], topic: str, name: str) -> list[ReceivedSpan]:
    return [
        one
        for one in spans
        if one.name == name and one.attributes.get("messaging.destination.name") == topic
    ]


def written(
    cluster: ServedCluster, receiver: TraceReceiver, topic: str, **settings: str
) -> list[ReceivedSpan]:
    """A record with the producer's trace; the spans of that once all replicas have told."""
    create(cluster, topic)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "client.id": "till-7", "acks": "all", **settings}
    )
    header = f"00-{TRACE_ID}-{SPAN_ID}-01".encode()
    producer.produce(topic, VALUE, headers={"traceparent": header})
    assert producer.flush(WAIT_SECONDS) == 0
    spans = receiver.until(
        "leader and followers have told",
        lambda spans: (
            len(of_topic(spans, topic, "replicate")) == 2
            and len(of_topic(spans, topic, "produce")) == 1
        ),
    )
    [trace_id] = {one.trace_id for one in of_topic(spans, topic, "produce")}
    [produce_id] = {one.span_id for one in of_topic(spans, topic, "produce")}
    return [
        one
        for one in receiver.of(trace_id)
        if one.span_id == produce_id or one.parent_id == produce_id
    ]


def test_one_trace_has_the_producers_id_the_leader_and_both_followers(
    cluster: ServedCluster, receiver: TraceReceiver
) -> None:
    spans = written(cluster, receiver, "orders")
    assert {one.trace_id for one in spans} == {TRACE_ID}
    produce = spans[0]
    assert (produce.name, produce.parent_id, produce.error) == ("produce", SPAN_ID, None)
    parts = [one for one in spans if one.node == produce.node and one is not produce]
    assert [one.name for one in parts] == LEADERS_PARTS
    # They lie end to end, and are the whole of it.
    times = [(one.start_ns, one.end_ns) for one in parts]
    assert [start for start, _ in times] == [produce.start_ns, *(end for _, end in times[:-1])]
    assert times[-1][1] == produce.end_ns
    followers = [one for one in spans if one.name == "replicate"]
    assert {one.node for one in followers} == {1, 2, 3} - {produce.node}
    append, replicas = parts[1], parts[2]
    for one in followers:
        assert one.parent_id == produce.span_id
        assert append.start_ns <= one.start_ns <= one.end_ns <= replicas.end_ns
    assert len({one.span_id for one in spans}) == len(spans) == 7
    assert produce.attributes == {
        "messaging.system": "kafka",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
        "messaging.batch.message_count": 1,
        "messaging.client.id": "till-7",
        "penstock.batch.bytes": produce.attributes["penstock.batch.bytes"],
        "penstock.acks": -1,
        "penstock.correlation.id": produce.attributes["penstock.correlation.id"],
    }
    assert produce.resource["service.name"] == "penstock"
    assert {one.resource["penstock.cluster.id"] for one in spans} == {
        produce.resource["penstock.cluster.id"]
    }
    assert receiver.paths == {"/v1/traces"}


def test_a_compressed_batch_has_a_trace_of_its_own_on_all_nodes(
    cluster: ServedCluster, receiver: TraceReceiver
) -> None:
    spans = written(cluster, receiver, "packed", **{"compression.type": "gzip"})
    assert {one.trace_id for one in spans} == {spans[0].trace_id} != {TRACE_ID}
    assert spans[0].parent_id == ""
    assert [one.name for one in spans].count("replicate") == 2


def test_a_batch_that_waits_for_its_transaction_shows_that(
    cluster: ServedCluster, receiver: TraceReceiver
) -> None:
    """Two of three leaders are not the coordinator at least: they have to ask it."""
    create(cluster, "paid", partitions=3)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": "till", "acks": "all"}
    )
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    for partition in range(3):
        producer.produce("paid", b"order", partition=partition)
    producer.commit_transaction(WAIT_SECONDS)

    def all_told(spans: list[ReceivedSpan]) -> bool:
        return (
            len(of_topic(spans, "paid", "produce")) == 3
            and len(of_topic(spans, "paid", "replicate")) == 6
        )

    spans = receiver.until("all have told", all_told)
    verified = 0
    for produce in of_topic(spans, "paid", "produce"):
        names = [
            one.name
            for one in receiver.of(produce.trace_id)
            if one.parent_id == produce.span_id and one.node == produce.node
        ]
        waited = ["queue", "verify", *LEADERS_PARTS[1:]]
        assert names in (LEADERS_PARTS, waited)
        verified += names == waited
    assert verified >= 2
    # Neither markers nor the coordinators' own topics are traced.
    names = {one.attributes.get("messaging.destination.name") for one in receiver.spans}
    assert names <= {None, "orders", "packed", "paid"}
    assert len(of_topic(receiver.spans, "paid", "replicate")) == 6


def test_nodes_that_stop_export_what_is_left(tmp_path: Path) -> None:
    with (
        trace_receiver() as receiver,
        ServedCluster(
            tmp_path, penstock_tracing_endpoint=receiver.url, penstock_tracing_sample="1"
        ) as cluster,
    ):
        cluster.start()
        create(cluster, "last")
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.produce("last", b"order")
        assert producer.flush(WAIT_SECONDS) == 0
        for node in cluster.nodes.values():
            assert node.end() == 0
        told = [one.name for one in receiver.spans]
        assert told.count("produce") == 1
        assert told.count("replicate") == 2
