"""A broker's settings are read as Apache Kafka's server.properties."""

import pytest

from penstock.model.settings.broker import (
    BROKER_SETTINGS,
    USED_SETTINGS,
    BrokerSettings,
    parse_broker,
    with_dynamic,
    without_effect,
)
from penstock.model.settings.listener import ListenAddress, SecurityProtocol
from penstock.model.settings.setting import InvalidSetting, UnknownSetting


def test_nothing_given_means_kafkas_defaults() -> None:
    assert parse_broker({}) == BrokerSettings()


def test_every_default_is_a_value_that_the_setting_accepts() -> None:
    for setting in USED_SETTINGS.values():
        if setting.default is not None:
            assert setting.parse(setting.default) == getattr(BrokerSettings(), setting.field)


def test_a_properties_file_of_apache_kafka_is_understood() -> None:
    settings = parse_broker(
        {
            "process.roles": "broker,controller",
            "node.id": "7",
            "controller.quorum.voters": "7@127.0.0.1:9093",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "advertised.listeners": "PLAINTEXT://kafka.example:9092",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": "/a,/b",
            "num.network.threads": "3",
            "log.retention.hours": "168",
            "offsets.topic.replication.factor": "1",
        }
    )
    assert settings.node_id == 7
    assert settings.directories == ("/a", "/b")
    assert settings.client_listeners == (
        ListenAddress(listener="PLAINTEXT", host="127.0.0.1", port=9092),
    )
    assert settings.advertised_listeners == (
        ListenAddress(listener="PLAINTEXT", host="kafka.example", port=9092),
    )
    assert [str(voter) for voter in settings.controller_quorum_voters] == ["7@127.0.0.1:9093"]
    assert settings.protocol_of("CONTROLLER") == SecurityProtocol.PLAINTEXT


def test_known_settings_without_effect_are_named() -> None:
    given = {"num.network.threads": "3", "num.partitions": "4"}
    assert without_effect(parse_broker(given)) == ("num.network.threads",)


def test_directories_that_are_to_get_no_new_partitions_are_refused() -> None:
    for text in ("/disks/a", "*"):
        with pytest.raises(InvalidSetting, match=r"cannot be kept from a directory here"):
            parse_broker({"log.dirs": "/disks/a,/disks/b", "cordoned.log.dirs": text})
    parse_broker({"cordoned.log.dirs": ""})


def test_a_likely_typo_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownSetting, match=r"did you mean num\.partitions\?"):
        parse_broker({"num.partition": "4"})


def test_names_that_nobody_knows_are_listed_and_ignored() -> None:
    given = {"confluent.license": "x", "kafka.lz4": "y", "num.partitions": "4"}
    settings = parse_broker(given)
    assert settings.unknown == ("confluent.license", "kafka.lz4")
    assert settings.num_partitions == 4
    assert without_effect(settings) == ()


def test_a_setting_of_a_listener_that_other_nodes_have_is_known_without_effect() -> None:
    name = "listener.name.internal.ssl.keystore.location"
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SSL"}
    assert without_effect(parse_broker({name: "/x", **protocols})) == (name,)


def test_the_old_name_of_the_node_id_still_counts() -> None:
    assert parse_broker({"broker.id": "3"}).node_id == 3


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"listeners": ""}, "At least one listener"),
        ({"listeners": "127.0.0.1:9092"}, "must look like PLAINTEXT://host:9092"),
        ({"listeners": "PLAINTEXT://h:70000"}, "must look like"),
        ({"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}, "different name"),
        ({"listeners": "PLAINTEXT://h:1,SSL://h:1"}, "different port"),
        ({"listeners": "INSIDE://h:1"}, r"INSIDE must appear in listener\.security"),
        ({"listeners": "PLAINTEXT://h:1", "controller.listener.names": "PLAINTEXT"}, "a listener"),
        ({"advertised.listeners": "SSL://h:1"}, "must be one of listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "clients can reach"),
        ({"inter.broker.listener.name": "SSL"}, "name of one of listeners"),
        ({"listener.security.protocol.map": "INSIDE:TLS"}, "listener:protocol"),
        ({"controller.quorum.voters": "h:9093"}, "must look like 1@host:9093"),
        ({"controller.quorum.voters": "1@h:9093,1@h:9094"}, "different id"),
        (
            {"controller.quorum.voters": "1@h:9093,2@g:9093,3@h:9093"},
            "1@h:9093 and 3@h:9093 must have different addresses",
        ),
        ({"controller.quorum.voters": "1@0.0.0.0:9093"}, "a host that the other nodes can reach"),
        ({"controller.quorum.voters": "1@h:9093,2@h:0"}, "2@h:0 needs a port"),
        ({"controller.quorum.bootstrap.servers": "h"}, "must look like host:9093"),
        ({"controller.quorum.bootstrap.servers": "h:0"}, "must look like host:9093"),
        ({"controller.quorum.election.timeout.ms": "0"}, "at least 1"),
        ({"controller.quorum.append.linger.ms": "-1"}, "at least 0"),
        ({"broker.session.timeout.ms": "0"}, "at least 1"),
        ({"security.inter.broker.protocol": "TLS"}, "one of: PLAINTEXT, SSL"),
        ({"node.id": "1", "broker.id": "2"}, "the same as node.id, 1"),
        ({"process.roles": "zookeeper"}, "broker, controller"),
        ({"process.roles": ""}, "At least one of"),
        ({"log.dirs": ""}, "At least one directory"),
        ({"node.id": "-2"}, "at least 0"),
        ({"num.partitions": "0"}, "at least 1"),
        ({"offsets.topic.segment.bytes": "20000"}, "at least 1048576"),
        ({"transaction.state.log.segment.bytes": "20000"}, "at least 1048576"),
        ({"num.network.threads": "three"}, "Not a whole number"),
        (
            {
                "log.cleaner.min.compaction.lag.ms": "9",
                "log.cleaner.max.compaction.lag.ms": "8",
            },
            "at most",
        ),
        ({"replica.fetch.wait.max.ms": "30001"}, "at most replica.socket.timeout.ms, 30000"),
        (
            {"replica.fetch.wait.max.ms": "400", "replica.lag.time.max.ms": "300"},
            "at most replica.lag.time.max.ms, 300",
        ),
        ({"penstock.alerts.topic": "__consumer_offsets"}, "is an internal topic"),
        ({"penstock.alerts.topic": "__transaction.state"}, "__transaction_state is an internal"),
        ({"penstock.alerts.topic": "__cluster_metadata"}, "is an internal topic"),
        ({"penstock.alerts.topic": ".."}, "Topic name is invalid"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_be_right(
    given: dict[str, str], expected: str
) -> None:
    with pytest.raises(InvalidSetting, match=expected):
        parse_broker(given)


def test_an_address_of_ip_version_6_is_read_and_shown_in_brackets() -> None:
    (address,) = parse_broker({"listeners": "PLAINTEXT://[::1]:9092"}).listeners
    assert (address.host, str(address)) == ("::1", "PLAINTEXT://[::1]:9092")


def test_passwords_are_known_to_be_secret() -> None:
    assert BROKER_SETTINGS["ssl.keystore.password"].sensitive


def test_dynamic_settings_lie_over_static_ones() -> None:
    static = parse_broker({"message.max.bytes": "1000", "log.retention.hours": "1"})
    laid_over = with_dynamic(
        static,
        cluster={"message.max.bytes": "2000", "log.retention.ms": "7"},
        broker={"message.max.bytes": "3000"},
    )
    assert laid_over.message_max_bytes == 3000
    assert laid_over.log_retention_ms == 7
    assert laid_over.given == static.given


def test_times_of_a_cluster_have_an_effect() -> None:
    times = {
        "broker.heartbeat.interval.ms": "1000",
        "broker.session.timeout.ms": "5000",
        "initial.broker.registration.timeout.ms": "5000",
        "controller.quorum.election.backoff.max.ms": "500",
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.fetch.timeout.ms": "500",
        "controller.quorum.request.timeout.ms": "500",
        "controller.quorum.retry.backoff.ms": "50",
    }
    assert without_effect(parse_broker(times)) == ()
