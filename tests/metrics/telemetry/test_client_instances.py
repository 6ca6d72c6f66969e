"""What a client is asked for, and which of its pushes are taken: as Apache Kafka decides it."""

import itertools

import pytest

from penstock.metrics.telemetry.instances import (
    Client,
    ClientInstances,
    Instance,
    Push,
    subscription_id,
)
from penstock.model.error import ErrorCode
from penstock.model.limit import TELEMETRY_INSTANCES_MAX, TELEMETRY_PREFIXES_MAX
from penstock.model.settings.client_metrics import (
    CLIENT_METRICS_SETTINGS,
    INTERVAL_MS_DEFAULT,
    parse_subscription,
)
from penstock.model.settings.setting import InvalidSetting

E = ErrorCode
NO_ID = bytes(16)
BYTES_MAX = 1000
ZSTD = 4


class Broker:
    """One client instance talks with it, at times that it names in seconds."""

    def __init__(self, **config: str) -> None:
        numbers = itertools.count(1)
        self.costly: list[str] = []
        self.instances = ClientInstances(
            push_bytes_max=BYTES_MAX,
            random_bytes=lambda count: next(numbers).to_bytes(count, "little"),
            note_costly=self.costly.append,
        )
        if config:
            self.subscribe("all", **config)
        self.instance_id = NO_ID
        self.subscription_id = 0
        self.metrics: tuple[str, ...] = ()
        self.interval_ms = 0

    def subscribe(self, name: str, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.instances.subscribe(name, parse_subscription(settings) if config else None)

    def asks(self, at: float, *, client_id: str = "order-7", instance: bytes | None = None) -> E:
        asked_by = self.instance_id if instance is None else instance
        found = self.instances.ask(asked_by, client(client_id), now_ms=int(at * 1000))
        if isinstance(found, ErrorCode):
            return found
        self.instance_id, known = found
        self.subscription_id, self.metrics = known.subscription_id, known.metrics
        self.interval_ms = known.interval_ms
        return E.NONE

    def pushes(
        self,
        at: float,
        *,
        last: bool = False,
        codec: int = ZSTD,
        size: int = 10,
        subscription: int | None = None,
        instance: bytes | None = None,
    ) -> E:
        push = Push(
            instance_id=self.instance_id if instance is None else instance,
            subscription_id=self.subscription_id if subscription is None else subscription,
            is_terminating=last,
            codec=codec,
            size_bytes=size,
        )
        found = self.instances.push(push, client("order-7"), now_ms=int(at * 1000))
        return E.NONE if isinstance(found, Instance) else found


def client(client_id: str) -> Client:
    return Client(
        client_id=client_id,
        software_name="librdkafka",
        software_version="2.16.1",
        host="10.0.0.1",
        port=40_000,
    )


@pytest.fixture
def broker() -> Broker:
    return Broker(metrics="org.a,org.b", interval_ms="10000")


def test_without_a_subscription_a_client_pushes_nothing_and_asks_again_in_five_minutes() -> None:
    broker = Broker()
    assert broker.asks(0) == E.NONE
    assert broker.metrics == ()
    assert broker.interval_ms == 300_000


def test_a_client_without_an_id_is_given_one_and_keeps_it(broker: Broker) -> None:
    assert broker.asks(0) == E.NONE
    given = broker.instance_id
    assert given != NO_ID
    assert broker.asks(10) == E.NONE
    assert broker.instance_id == given
    assert broker.asks(10, instance=NO_ID) == E.NONE
    assert broker.instance_id != given


def test_a_client_has_all_subscriptions_that_match_it_at_the_shortest_interval() -> None:
    broker = Broker(metrics="org.a", interval_ms="60000")
    broker.subscribe("orders", metrics="org.a,org.b", interval_ms="5000", match="client_id=order.*")
    broker.subscribe("others", metrics="org.c", interval_ms="1000", match="client_id=payment.*")
    broker.asks(0)
    assert (broker.metrics, broker.interval_ms) == (("org.a", "org.b"), 5_000)


def test_a_client_is_asked_for_so_many_names_and_no_more() -> None:
    names = [f"org.a{number:03}" for number in range(TELEMETRY_PREFIXES_MAX + 1)]
    broker = Broker(metrics=",".join(reversed(names)))
    broker.asks(0)
    assert broker.metrics == tuple(names[:-1])
    broker.subscribe("others", metrics="*")
    broker.asks(0, instance=NO_ID)
    assert broker.metrics == ("*",)


def test_an_interval_above_five_minutes_counts_as_five_and_its_setting_says_so() -> None:
    broker = Broker(metrics="org.a", interval_ms="3600000")
    broker.asks(0)
    assert broker.interval_ms == INTERVAL_MS_DEFAULT == 300_000
    assert "above 5 minutes counts as 5" in CLIENT_METRICS_SETTINGS["interval.ms"].doc


COSTLY = "client_id=" + ".?" * 300 + "x"  # of 601 nodes, all of which are reached


def test_a_costly_subscription_does_not_keep_a_client_from_the_others() -> None:
    broker = Broker()
    for number in range(10):
        broker.subscribe(f"costly-{number}", metrics="org.a", match=COSTLY)
    broker.subscribe("plain", metrics="org.b", match="client_id=z+")
    assert broker.asks(0, client_id="z" * 150) == E.NONE
    assert broker.metrics == ("org.b",)


def test_a_costly_subscription_is_named_once_until_it_changes() -> None:
    broker = Broker()
    broker.subscribe("costly", metrics="org.a", match=COSTLY)
    for character in "zyv":
        broker.asks(0, client_id=character * 150, instance=NO_ID)
    assert broker.costly == ["costly"]
    broker.subscribe("costly", metrics="org.a", match=COSTLY)
    broker.asks(0, client_id="z" * 150, instance=NO_ID)
    assert broker.costly == ["costly", "costly"]


def test_a_long_client_id_is_matched_by_its_beginning() -> None:
    broker = Broker(metrics="org.a", match="client_id=order-(0|1)*")
    broker.asks(0, client_id="order-" + "01" * 15_000 + "x")
    assert broker.metrics == ("org.a",)
    assert broker.costly == []


def test_a_pattern_of_too_many_parts_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="more than 1000 parts"):
        Broker(metrics="org.a", match="client_id=" + ".?" * 4000 + "x")


def test_all_metrics_include_every_other() -> None:
    broker = Broker(metrics="org.a")
    broker.subscribe("everything", metrics="*")
    broker.asks(0)
    assert broker.metrics == ("*",)


def test_pushes_come_at_the_interval(broker: Broker) -> None:
    broker.asks(0)
    assert broker.pushes(6) == E.NONE  # jitter: the first one may come early
    assert broker.pushes(15.9) == E.THROTTLING_QUOTA_EXCEEDED
    assert broker.pushes(16) == E.NONE


def test_a_client_that_asks_too_early_is_throttled(broker: Broker) -> None:
    broker.asks(0)
    assert broker.asks(9.9) == E.THROTTLING_QUOTA_EXCEEDED
    broker.pushes(10)
    assert broker.asks(15) == E.THROTTLING_QUOTA_EXCEEDED
    assert broker.asks(20) == E.NONE


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"subscription": 7}, E.UNKNOWN_SUBSCRIPTION_ID),
        ({"codec": 9}, E.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_after_a_refusal_that_asking_cures_a_client_may_ask_at_once(
    broker: Broker, wrong: dict[str, int], error: E
) -> None:
    broker.asks(0)
    assert broker.pushes(5, **wrong) == error
    assert broker.asks(5.1) == E.NONE
    assert broker.asks(5.2) == E.THROTTLING_QUOTA_EXCEEDED


def test_a_push_that_is_too_large_is_refused_and_counts(broker: Broker) -> None:
    broker.asks(0)
    assert broker.pushes(5, size=BYTES_MAX + 1) == E.TELEMETRY_TOO_LARGE
    assert broker.pushes(6) == E.THROTTLING_QUOTA_EXCEEDED
    assert broker.pushes(15, size=BYTES_MAX) == E.NONE


def test_the_last_push_may_come_early_and_is_the_last(broker: Broker) -> None:
    broker.asks(0)
    broker.pushes(5)
    assert broker.pushes(6, last=True) == E.NONE
    assert broker.pushes(16) == E.INVALID_REQUEST


@pytest.mark.parametrize("reserved", [NO_ID, bytes(15) + b"\x01"])
def test_a_push_without_an_id_is_refused(broker: Broker, reserved: bytes) -> None:
    assert broker.pushes(0, instance=reserved) == E.INVALID_REQUEST
    assert len(broker.instances) == 0


def test_a_change_of_subscriptions_is_noticed_with_the_next_push(broker: Broker) -> None:
    broker.asks(0)
    old = broker.subscription_id
    assert broker.pushes(5) == E.NONE
    broker.subscribe("all", metrics="org.c", interval_ms="10000")
    assert broker.pushes(6) == E.UNKNOWN_SUBSCRIPTION_ID
    assert broker.asks(6.1) == E.NONE
    assert broker.metrics == ("org.c",)
    assert broker.subscription_id != old
    broker.subscribe("all")
    assert broker.asks(6.2) == E.NONE
    assert broker.metrics == ()


def test_another_broker_takes_the_id_that_a_client_has(broker: Broker) -> None:
    broker.asks(0)
    other = Broker(metrics="org.a,org.b", interval_ms="10000")
    other.instance_id, other.subscription_id = broker.instance_id, broker.subscription_id
    assert other.pushes(0) == E.NONE


def test_a_silent_client_is_forgotten_after_three_intervals_and_a_minute_at_least(
    broker: Broker,
) -> None:
    broker.asks(0)
    broker.instances.expire(now_ms=59_999)
    assert len(broker.instances) == 1
    broker.instances.expire(now_ms=60_000)
    assert len(broker.instances) == 0
    slow = Broker(metrics="org.a", interval_ms="100000")
    slow.asks(0)
    slow.instances.expire(now_ms=299_999)
    assert len(slow.instances) == 1


def test_the_least_recently_seen_client_is_forgotten_when_there_are_too_many() -> None:
    broker = Broker(metrics="org.a")
    broker.asks(0)
    first = broker.instance_id
    for _ in range(TELEMETRY_INSTANCES_MAX):
        assert broker.asks(1, instance=NO_ID) == E.NONE
    assert len(broker.instances) == TELEMETRY_INSTANCES_MAX
    assert broker.asks(2, instance=first) == E.NONE  # as one that nobody knows


def test_a_subscription_id_is_a_checksum_mixed_with_javas_hash_of_the_client() -> None:
    instance_id = bytes.fromhex("00000000000000010000000000000002")  # its hash is 3
    of_nobody = subscription_id(("*",), 300_000, bytes(16))
    assert subscription_id(("*",), 300_000, instance_id) == of_nobody ^ 3
    found = {
        subscription_id(metrics, interval_ms, instance_id)
        for metrics in ((), ("*",), ("org.a",), ("org.a", "org.b"))
        for interval_ms in (100, 300_000)
    }
    assert len(found) == 8
    assert all(-(2**31) <= one < 2**31 for one in found)
