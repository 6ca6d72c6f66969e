"""Where a setting's value comes from, as kafka-configs shows it."""

from penstock.metadata.describe import (
    Described,
    Standpoint,
    describe_broker,
    describe_cluster_default,
    describe_topic,
    describe_topic_defaults,
)
from penstock.metadata.image.image import ConfigResource, Image
from penstock.model.configs import ResourceKind, Source
from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker

CLUSTER = ConfigResource(ResourceKind.BROKER, "")
NODE = ConfigResource(ResourceKind.BROKER, "1")


def standpoint(
    configs: dict[ConfigResource, dict[str, str]] | None = None, **given: str
) -> Standpoint:
    static = {name.replace("_", "."): value for name, value in given.items()}
    return Standpoint(
        metadata=Image(configs=configs or {}), static=parse_broker(static), node_id=NodeId(1)
    )


def described_topic(overrides: dict[str, str], where: Standpoint) -> list[Described]:
    return list(describe_topic(overrides, describe_topic_defaults(where)))


def one(described: list[Described], name: str) -> Described:
    (found,) = [setting for setting in described if setting.name == name]
    return found


def trail(described: Described) -> list[tuple[str, str | None, str]]:
    return [(found.name, found.value, found.source.name) for found in described.synonyms]


def test_a_default_says_that_it_is_one() -> None:
    found = one(described_topic({}, standpoint()), "retention.ms")
    assert (found.value, found.source) == ("604800000", Source.DEFAULT)
    assert trail(found) == []
    found = one(described_topic({}, standpoint()), "max.message.bytes")
    assert trail(found) == [("message.max.bytes", "1048588", "DEFAULT")]


def test_every_layer_of_a_topic_setting_is_told_in_the_order_that_counts() -> None:
    where = standpoint(
        {NODE: {"log.retention.ms": "2"}, CLUSTER: {"log.retention.ms": "3"}},
        log_retention_ms="4",
        log_retention_hours="5",
    )
    found = one(described_topic({"retention.ms": "1"}, where), "retention.ms")
    assert (found.value, found.source) == ("1", Source.TOPIC)
    assert trail(found) == [
        ("retention.ms", "1", "TOPIC"),
        ("log.retention.ms", "2", "DYNAMIC_BROKER"),
        ("log.retention.ms", "3", "DYNAMIC_DEFAULT_BROKER"),
        ("log.retention.ms", "4", "STATIC_BROKER"),
        ("log.retention.hours", "5", "STATIC_BROKER"),
    ]
    found = one(described_topic({}, where), "retention.ms")
    assert (found.value, found.source) == ("2", Source.DYNAMIC_BROKER)


def test_a_coarser_unit_shows_in_the_topics_own() -> None:
    found = one(described_topic({}, standpoint(log_retention_hours="2")), "retention.ms")
    assert (found.value, found.source) == ("7200000", Source.STATIC_BROKER)


def test_a_brokers_settings_say_which_can_change_while_it_runs() -> None:
    described = describe_broker(standpoint())
    assert one(described, "node.id").read_only
    assert not one(described, "message.max.bytes").read_only


def test_a_brokers_value_is_that_of_the_first_layer_which_has_one() -> None:
    where = standpoint({CLUSTER: {"message.max.bytes": "3"}}, message_max_bytes="4")
    found = one(describe_broker(where), "message.max.bytes")
    assert (found.value, found.source) == ("3", Source.DYNAMIC_DEFAULT_BROKER)
    assert [synonym.value for synonym in found.synonyms] == ["3", "4", "1048588"]


def test_a_unit_that_is_not_given_is_not_told_with_the_value_of_a_coarser_one() -> None:
    found = one(describe_broker(standpoint(log_retention_hours="5")), "log.retention.ms")
    assert (found.value, found.source, trail(found)) == (None, Source.DEFAULT, [])


def test_a_broker_setting_is_told_with_the_coarser_units_that_it_goes_before() -> None:
    where = standpoint(
        {NODE: {"log.retention.ms": "2"}}, log_retention_minutes="4", log_retention_hours="5"
    )
    described = describe_broker(where)
    hours = [
        ("log.retention.hours", "5", "STATIC_BROKER"),
        ("log.retention.hours", "168", "DEFAULT"),
    ]
    minutes = [("log.retention.minutes", "4", "STATIC_BROKER"), *hours]
    assert trail(one(described, "log.retention.hours")) == hours
    assert trail(one(described, "log.retention.minutes")) == minutes
    assert trail(one(described, "log.retention.ms")) == [
        ("log.retention.ms", "2", "DYNAMIC_BROKER"),
        *minutes,
    ]


def test_a_password_is_never_shown() -> None:
    found = one(describe_broker(standpoint(ssl_key_password="secret")), "ssl.key.password")
    assert found.sensitive
    assert found.value is None
    assert [synonym.value for synonym in found.synonyms] == [None]


def test_known_settings_without_effect_are_listed_too() -> None:
    found = one(describe_broker(standpoint(num_io_threads="12")), "num.io.threads")
    assert (found.value, found.source) == ("12", Source.STATIC_BROKER)


def test_the_clusters_default_lists_only_what_was_set() -> None:
    (found,) = describe_cluster_default(Image(configs={CLUSTER: {"message.max.bytes": "9"}}))
    assert (found.name, found.value) == ("message.max.bytes", "9")
    assert found.source == Source.DYNAMIC_DEFAULT_BROKER


def test_settings_for_tests_show_only_when_they_are_set() -> None:
    names = [found.name for found in described_topic({}, standpoint())]
    assert "internal.segment.bytes" not in names
    assert names == sorted(names)


def test_what_kafka_keeps_to_itself_shows_only_when_it_is_set() -> None:
    name = "follower.replication.throttled.rate"
    assert name not in [found.name for found in describe_broker(standpoint())]
    where = standpoint({NODE: {name: "1000"}})
    assert one(describe_broker(where), name).value == "1000"
