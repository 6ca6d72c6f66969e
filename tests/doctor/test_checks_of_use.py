"""What producers, groups, rights and machines are judged by."""

from dataclasses import replace

import pytest

from penstock.client.admin.admin import LogDirectory
from penstock.client.admin.group_lag import PartitionLag
from penstock.client.admin.hanging_transactions import OpenTransaction, Suspect
from penstock.client.admin.transaction_listing import TransactionDescription
from penstock.client.consume.group_offsets import Committed
from penstock.client.network.errors import Refused
from penstock.doctor.finding import Status
from penstock.doctor.gather_metrics import metrics_address
from penstock.doctor.guard import acls, tls
from penstock.doctor.left_open import sink_of, transactions
from penstock.doctor.machines import clock, descriptors, disk
from penstock.doctor.readers import empty_groups, lag, offset_reset
from penstock.doctor.seen import AclsSeen, ClockSeen, DescriptorsSeen, GroupSeen, Limits, Unseen
from penstock.doctor.writes import acks, compression, idempotence
from penstock.groups.lag import Lag
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import Offset
from penstock.model.settings.listener import SecurityProtocol
from penstock.records.compression import Codec
from penstock.records.layout import TimestampType
from penstock.security.acl.entry import CLUSTER, Acl, ResourcePattern
from penstock.security.acl.words import AclOperation, PatternType, Permission, ResourceType
from penstock.spark.options import Given
from penstock.spark.query_group import default_group
from penstock.spark.sink.names import (
    TaskNumbers,
    attempt_of,
    first_attempt,
    single_write_sink,
)
from rig.cluster_seen import NOW_MS, advice, batch, commands, directory, seen

LIMITS = Limits()
PLACE = TopicPartition("orders", 0)


def test_batches_without_a_producer_id_show_that_idempotence_is_off_and_no_acks() -> None:
    mixed = seen(batches={PLACE: (batch(), batch(producer_id=None))})
    found = idempotence(mixed, LIMITS)
    assert (found.status, found.reason) == (
        Status.WARN,
        "orders: 1 of its last 2 batches without a producer id",
    )
    unseen = Unseen(reason="it has no metrics")
    blind = replace(mixed, early_acks={NodeId(1): {}, NodeId(2): unseen})
    assert acks(blind, LIMITS).status is Status.UNKNOWN
    assert (idempotence(seen(), LIMITS).status, acks(seen(), LIMITS).status) == (
        Status.PASS,
        Status.PASS,
    )


def test_where_nothing_was_written_nothing_is_known_of_producers() -> None:
    for check in (idempotence, acks, compression):
        assert check(seen(batches={PLACE: ()}), LIMITS).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("size_bytes", "setting", "status"),
    [
        (4_000, "producer", Status.WARN),
        (1_000, "producer", Status.PASS),
        (4_000, "zstd", Status.PASS),
        (4_000, "uncompressed", Status.WARN),
    ],
)
def test_large_batches_are_compressed(size_bytes: int, setting: str, status: Status) -> None:
    plain = seen(
        batches={PLACE: (batch(codec=Codec.NONE, size_bytes=size_bytes),)},
        settings={"orders": {"compression.type": setting}},
    )
    found = compression(plain, LIMITS)
    assert found.status is status
    if status is Status.WARN:
        assert commands(found) == ["penstock topics alter orders --set compression.type=zstd"]


def group(
    age_ms: int | None = 0, *, members: int = 1, name: str = "billing", records: int = 5
) -> GroupSeen:
    one = PartitionLag(
        partition=PLACE,
        committed=Committed(offset=Offset(0)),
        start_offset=Offset(0),
        end_offset=Offset(5),
        lag=Lag(records=records, missed=0, age_ms=age_ms),
    )
    return GroupSeen(
        group_id=name,
        state="Stable" if members else "Empty",
        member_topics=(("orders",),) * members,
        lag=(one,),
    )


def test_lag_is_held_against_the_sla_in_seconds() -> None:
    assert lag(seen(groups=(group(300_000),)), LIMITS).status is Status.PASS
    found = lag(seen(groups=(group(300_001),)), LIMITS)
    assert (found.status, found.reason) == (Status.FAIL, "billing is 300 s behind, by 5 records")
    assert lag(seen(groups=(group(300_001),)), Limits(lag_ms_max=600_000)).status is Status.PASS
    unseen = replace(group(), lag=Unseen(reason="its coordinator is away"))
    assert lag(seen(groups=(unseen,)), LIMITS).reason == "its coordinator is away"


def test_a_group_whose_oldest_unread_records_were_not_read_has_an_unknown_lag() -> None:
    late = replace(group(None), unread=(PLACE, TopicPartition("orders", 1)))
    found = lag(seen(groups=(late,)), LIMITS)
    assert (found.status, found.reason) == (
        Status.UNKNOWN,
        "how far billing is behind is not known in 2 partitions: orders-0, orders-1",
    )
    also = replace(group(300_001), unread=(PLACE,))
    assert lag(seen(groups=(also,)), LIMITS).status is Status.FAIL  # it is known of another one
    markers = group(None)  # all that is unread is markers of transactions
    assert lag(seen(groups=(markers,)), LIMITS).status is Status.PASS


def test_a_group_with_offsets_has_members() -> None:
    assert empty_groups(seen(groups=(group(),)), LIMITS).status is Status.PASS
    found = empty_groups(seen(groups=(group(members=0),)), LIMITS)
    assert found.status is Status.WARN
    assert commands(found) == []
    assert advice(found) == [
        "start its consumers; if it is not used any more: penstock groups delete billing"
    ]
    noted = group(members=0, name="penstock-dlq-orders")
    assert empty_groups(seen(groups=(noted,)), LIMITS).status is Status.PASS
    nothing = replace(group(members=0), lag=())
    assert empty_groups(seen(groups=(nothing,)), LIMITS).status is Status.PASS


def test_a_query_of_spark_has_no_members() -> None:
    query = group(members=0, name=default_group(Given({}), query="sales"))
    assert empty_groups(seen(groups=(query,)), LIMITS).status is Status.PASS
    late = replace(query, lag=group(300_001).lag)
    assert lag(seen(groups=(late,)), LIMITS).status is Status.FAIL


def test_what_no_request_carries_is_unknown() -> None:
    assert offset_reset(seen(), LIMITS).status is Status.UNKNOWN
    unseen = Unseen(reason="it has no metrics")
    found = descriptors(seen(descriptors={NodeId(1): unseen, NodeId(2): unseen}), LIMITS)
    assert (found.status, found.reason) == (Status.UNKNOWN, "it has no metrics")


@pytest.mark.parametrize(
    ("opened", "status"), [(800, Status.PASS), (801, Status.WARN), (951, Status.FAIL)]
)
def test_a_fifth_of_the_descriptors_is_left(opened: int, status: Status) -> None:
    told = {NodeId(1): DescriptorsSeen(open=opened, limit=1_000)}
    assert descriptors(seen(descriptors=told), LIMITS).status is status


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ("9404", "127.0.0.1:9404"),
        ("10.0.0.7:9404", "10.0.0.7:9404"),
        ("0.0.0.0:9404", "localhost:9404"),
        ("[::]:9404", "localhost:9404"),
    ],
)
def test_metrics_are_where_the_settings_of_a_node_say(setting: str, found: str) -> None:
    broker = seen().brokers[NodeId(1)]
    assert str(metrics_address(broker, {"penstock.metrics.address": setting})) == found


@pytest.mark.parametrize("setting", [None, "", "0", "nowhere:x"])
def test_metrics_that_nobody_can_find_are_not_asked_for(setting: str | None) -> None:
    broker = seen().brokers[NodeId(1)]
    told = metrics_address(broker, {"penstock.metrics.address": setting})
    assert isinstance(told, Unseen)


def test_a_broker_that_has_no_such_setting_is_not_asked_to_set_it() -> None:
    """As one of Apache Kafka."""
    broker = seen().brokers[NodeId(1)]
    assert metrics_address(broker, {"log.dirs": "/data"}) == Unseen(
        reason="no request tells it, and only nodes of Penstock have metrics that do"
    )
    unset = metrics_address(broker, {"penstock.metrics.address": None})
    assert isinstance(unset, Unseen)
    assert unset.reason.endswith("penstock.metrics.address is not set")


def transaction(
    *, timeout_ms: int | None, age_ms: int = 900_001, name: str = "till"
) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=name,
        state="Ongoing",
        producer_id=1,
        epoch=0,
        coordinator=NodeId(1),
        start_ms=NOW_MS - age_ms,
        timeout_ms=timeout_ms,
        partitions=(PLACE,),
    )


def test_transactions_are_not_left_open() -> None:
    def judged(one: TransactionDescription) -> Status:
        found = transactions(seen(transactions=(one,)), LIMITS)
        if found.status is not Status.PASS:
            told = commands(found) if one.timeout_ms is not None else advice(found)
            assert [line.rpartition(": ")[2] for line in told] == [
                "penstock transactions abort till"
            ]
        return found.status

    assert judged(transaction(timeout_ms=None)) is Status.FAIL
    assert judged(transaction(timeout_ms=3_600_000)) is Status.WARN
    assert judged(transaction(timeout_ms=None, age_ms=900_000)) is Status.PASS
    assert judged(replace(transaction(timeout_ms=None), state="PrepareCommit")) is Status.PASS


@pytest.mark.parametrize("timeout_ms", [None, 3_600_000])
def test_what_a_sink_may_have_decided_is_not_aborted_by_its_id(timeout_ms: int | None) -> None:
    one = transaction(timeout_ms=timeout_ms, name=id_of_sink("shop.sales"))
    found = transactions(seen(transactions=(one,)), LIMITS)
    assert commands(found) == []
    [line] = advice(found)
    assert "`penstock transactions recover`" in line
    assert line.endswith("; if it is given up: penstock transactions abort --sink shop.sales")


def test_single_write_is_ended_when_its_program_has_and_has_no_query_to_be_started() -> None:
    one = transaction(timeout_ms=None, name=id_of_sink(single_write_sink("f00d")))
    [line] = advice(transactions(seen(transactions=(one,)), LIMITS))
    assert "query" not in line
    assert "`penstock transactions recover`" in line
    assert "by its id" in line
    assert line.endswith(": penstock transactions abort --sink write-f00d")


def test_what_is_decided_elsewhere_is_aborted_only_if_it_is_given_up() -> None:
    found = transactions(seen(transactions=(transaction(timeout_ms=None),)), LIMITS)
    assert commands(found) == []
    assert advice(found) == [
        "its external coordinator is to end it; if that has given it up:"
        " penstock transactions abort till"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "till",
        "a.b.1.2.3",
        "a.b.1.2.3.x",
        ".b.1.2.3.4",
        "a..1.2.3.4",
        "a.b.c.1.2.3.4",
        "a\n.b.1.2.3.4",
    ],
)
def test_ids_of_sinks_are_told_as_the_sink_tells_them(name: str) -> None:
    attempt = attempt_of(name)
    assert sink_of(name) == (None if attempt is None else attempt.sink)
    assert sink_of(id_of_sink(name)) == name


def id_of_sink(sink: str) -> str:
    task = TaskNumbers(partition=3, attempt=0, unique=17)
    return first_attempt(sink, "f00d", 12, task, two_phase=True).transactional_id


def test_a_transaction_that_nobody_will_end_is_aborted_where_it_hangs() -> None:
    opened = OpenTransaction(
        partition=PLACE,
        start_offset=Offset(4),
        producer_id=1,
        epoch=0,
        coordinator_epoch=None,
        last_write_ms=NOW_MS,
    )
    found = transactions(seen(hanging=(Suspect(open=opened, known=None),)), LIMITS)
    assert found.status is Status.FAIL
    assert commands(found) == ["penstock transactions abort --topic orders:0 --start-offset 4"]


def test_connections_and_listeners_use_tls() -> None:
    assert tls(seen(), LIMITS).status is Status.PASS
    plain = tls(seen(protocol=SecurityProtocol.SASL_PLAINTEXT), LIMITS)
    assert plain.reason == "this connection is SASL_PLAINTEXT, not encrypted"
    named = {
        "listeners": "IN://:1,OUT://:2",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SSL",
    }
    found = tls(seen(broker_settings={NodeId(1): named}), LIMITS)
    assert (found.status, found.reason) == (Status.WARN, "broker 1 listens without TLS: IN")


def allowed(
    operation: AclOperation, pattern: ResourcePattern, principal: str = "User:*"
) -> AclsSeen:
    return AclsSeen(
        is_enabled=True, entries=(Acl(pattern=pattern, principal=principal, operation=operation),)
    )


def test_rights_for_everyone_are_named_with_the_command_that_takes_them() -> None:
    prefix = ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED)
    found = acls(seen(acls=allowed(AclOperation.READ, prefix)), LIMITS)
    assert (found.status, found.reason) == (Status.WARN, "everyone may read topic ord*")
    [command] = commands(found)
    assert command == "penstock acls remove --principal 'User:*' --operation read --topic 'ord*'"
    cluster = acls(seen(acls=allowed(AclOperation.ALTER_CONFIGS, CLUSTER)), LIMITS)
    assert cluster.status is Status.FAIL
    [command] = commands(cluster)
    assert command.endswith("--operation alter-configs --cluster")
    alice = allowed(AclOperation.ALL, CLUSTER, "User:alice")
    assert acls(seen(acls=alice), LIMITS).status is Status.PASS


def test_a_command_that_would_remove_a_denial_too_is_not_advised() -> None:
    found = allowed(AclOperation.READ, ResourcePattern(ResourceType.TOPIC, "orders"))
    [entry] = found.entries
    denied = replace(entry, permission=Permission.DENY, host="10.0.0.1")
    both = replace(found, entries=(entry, denied))
    assert commands(acls(seen(acls=both), LIMITS)) == []


def test_no_authorizer_and_an_open_one_fail() -> None:
    none = acls(seen(acls=AclsSeen(is_enabled=False)), LIMITS)
    assert (none.status, none.reason) == (
        Status.FAIL,
        "there is no authorizer: everyone may do everything",
    )
    settings = {NodeId(1): {"allow.everyone.if.no.acl.found": "true"}}
    assert acls(seen(broker_settings=settings), LIMITS).status is Status.FAIL


@pytest.mark.parametrize(
    ("one", "status"),
    [
        (directory(1, usable_bytes=200), Status.PASS),
        (directory(1, usable_bytes=199), Status.WARN),
        (directory(1, usable_bytes=99), Status.FAIL),
        (directory(1, total_bytes=None), Status.UNKNOWN),
        (
            replace(directory(1), error=Refused(ErrorCode.KAFKA_STORAGE_ERROR, "/data")),
            Status.FAIL,
        ),
    ],
)
def test_a_fifth_of_each_disk_is_free(one: LogDirectory, status: Status) -> None:
    assert disk(seen(directories={NodeId(1): (one,)}), LIMITS).status is status


@pytest.mark.parametrize(
    ("ahead_ms", "status"),
    [(900, Status.PASS), (-900, Status.PASS), (-1_500, Status.WARN), (11_000, Status.FAIL)],
)
def test_the_controllers_clock_agrees_with_ours(ahead_ms: int, status: Status) -> None:
    seen_clock = ClockSeen(node_id=NodeId(1), ahead_ms=ahead_ms, within_ms=5)
    assert clock(seen(clock=seen_clock), LIMITS).status is status


@pytest.mark.parametrize(
    ("ahead_ms", "within_ms", "status"),
    [
        (900, 5, Status.PASS),
        (1_500, 5, Status.WARN),
        (-11_000, 5, Status.FAIL),
        (-1_500, 1_200, Status.UNKNOWN),  # its metrics took too long to know better
        (9_000, 1_200, Status.WARN),
    ],
)
def test_the_clocks_of_brokers_agree_with_ours(
    ahead_ms: int, within_ms: int, status: Status
) -> None:
    whole = seen()
    one = ClockSeen(node_id=NodeId(2), ahead_ms=ahead_ms, within_ms=within_ms)
    found = clock(replace(whole, clocks={**whole.clocks, NodeId(2): one}), LIMITS)
    assert found.status is status
    assert found.reason.startswith("broker 2 ") or status is Status.PASS


def test_a_clock_that_nobody_has_seen_does_not_pass() -> None:
    whole = seen()
    no_metrics = Unseen(reason="no request tells it")
    two = replace(whole, clocks=dict.fromkeys(map(NodeId, (1, 2, 3)), no_metrics))
    found = clock(two, LIMITS)
    assert (found.status, found.reason) == (
        Status.UNKNOWN,
        "the clocks of brokers 2 and 3 are not known: no request tells it",
    )
    alone = seen(brokers=(1,), clocks={NodeId(1): no_metrics})
    assert clock(alone, LIMITS).status is Status.PASS  # as the controller it has told its time
    elsewhere = ClockSeen(node_id=NodeId(9), ahead_ms=0, within_ms=1)
    found = clock(replace(alone, clock=elsewhere), LIMITS)
    assert found.reason == "the clock of broker 1 is not known: no request tells it"
    away = seen(brokers=(1, 2, 3), down=(2, 3), clocks={NodeId(1): no_metrics})
    assert clock(away, LIMITS).status is Status.PASS  # others tell that they are down


@pytest.mark.parametrize(
    ("ahead_ms", "kind", "status"),
    [
        (50_000, TimestampType.CREATE_TIME, Status.PASS),
        (70_000, TimestampType.CREATE_TIME, Status.WARN),
        (20_000, TimestampType.LOG_APPEND_TIME, Status.WARN),
    ],
)
def test_timestamps_of_the_future_show_a_clock_that_is_ahead(
    ahead_ms: int, kind: TimestampType, status: Status
) -> None:
    stamped = batch(timestamp_ms_max=NOW_MS + ahead_ms, timestamp_type=kind)
    assert clock(seen(batches={PLACE: (stamped,)}), LIMITS).status is status
