"""Every setting that Apache Kafka lists is listed here, with its default and its ways to change."""

import time
from collections.abc import Mapping

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewTopic

from penstock.metadata.describe import (
    Described,
    Standpoint,
    describe_broker,
    describe_topic,
    describe_topic_defaults,
)
from penstock.metadata.image.image import Image
from penstock.model.identity import NodeId
from penstock.model.settings.broker import BROKER_SETTINGS, parse_broker
from penstock.model.settings.setting import Setting
from penstock.model.settings.tls import TLS_SETTINGS
from penstock.model.settings.topic import TOPIC_SETTINGS
from rig.apache_kafka.broker import ApacheKafka
from rig.broker import NO_RETENTION_ROUND

DEFAULT = 5
SEEN_WITHIN_S = 60
HERE = Standpoint(metadata=Image(), static=parse_broker(NO_RETENTION_ROUND), node_id=NodeId(1))
# A listener cannot be changed here without a restart; new files of keys need no change of settings.
# Placeholders are those of a node's own file, which is read at its start.
AT_START_HERE = {
    "config.providers",
    "listeners",
    "listener.security.protocol.map",
    "sasl.enabled.mechanisms",
    "sasl.mechanism.inter.broker.protocol",
    *TLS_SETTINGS,
}


@pytest.fixture(scope="module")
def admin(apache_kafka: ApacheKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": apache_kafka.bootstrap})


def of_kafka(admin: AdminClient, kind: ConfigResource.Type, name: str) -> dict[str, ConfigEntry]:
    """A topic may be created before Apache Kafka's broker has heard of it: it is asked again."""
    until = time.monotonic() + SEEN_WITHIN_S
    while True:
        (answer,) = admin.describe_configs([ConfigResource(kind, name)]).values()
        try:
            return dict(answer.result())
        except KafkaException as error:
            unknown = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if not unknown or time.monotonic() > until:
                raise


def by_name(described: list[Described]) -> dict[str, Described]:
    return {setting.name: setting for setting in described}


def own_names(settings: Mapping[str, Setting]) -> set[str]:
    return {name for name, setting in settings.items() if setting.own}


def test_a_topic_has_kafkas_settings_and_our_own(admin: AdminClient) -> None:
    (created,) = admin.create_topics([NewTopic("settings-compared", 1, 1)]).values()
    created.result()
    theirs = of_kafka(admin, ConfigResource.Type.TOPIC, "settings-compared")
    ours = by_name(list(describe_topic({}, describe_topic_defaults(HERE))))
    assert ours.keys() - theirs.keys() == own_names(TOPIC_SETTINGS)
    assert theirs.keys() <= ours.keys()
    assert {name: entry.value for name, entry in theirs.items()} == {
        name: ours[name].value for name in theirs
    }


def test_a_broker_has_kafkas_settings_and_our_own(admin: AdminClient) -> None:
    theirs = of_kafka(admin, ConfigResource.Type.BROKER, "1")
    ours = by_name(describe_broker(HERE))
    assert ours.keys() - theirs.keys() == own_names(BROKER_SETTINGS)
    assert theirs.keys() <= ours.keys()
    for name, their in theirs.items():
        assert ours[name].sensitive == their.is_sensitive, name
        assert ours[name].read_only == (their.is_read_only or name in AT_START_HERE), name
        # What names a Java class has no counterpart.
        if their.source == DEFAULT and "org.apache.kafka" not in (their.value or ""):
            told = {part.strip() for part in (ours[name].value or "").split(",")}
            assert told == {part.strip() for part in (their.value or "").split(",")}, name
