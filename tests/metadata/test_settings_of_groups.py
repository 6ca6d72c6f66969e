"""Groups have settings of their own, within the broker's bounds; else they have the broker's."""

from collections.abc import Callable

import pytest

from penstock.metadata.describe import Standpoint, describe_group
from penstock.metadata.effective import effective_group
from penstock.metadata.image.image import ConfigResource, Image
from penstock.model.configs import ResourceKind, Source
from penstock.model.identity import NodeId
from penstock.model.settings.broker import BROKER_SETTINGS, parse_broker
from penstock.model.settings.setting import InvalidSetting
from penstock.model.settings.single_group import SINGLE_GROUP_SETTINGS, validate_group

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
BRISK = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "2000",
}


def image_with(config: dict[str, str]) -> Image:
    return Image(configs={ConfigResource(ResourceKind.GROUP, "g"): config} if config else {})


def refusal_of(check: Callable[[], None]) -> str | None:
    """What a check has against its argument."""
    try:
        check()
    except InvalidSetting as refusal:
        return str(refusal)
    return None


@pytest.mark.parametrize(
    "config",
    [
        {SESSION: "44999"},
        {SESSION: "60001"},
        {SESSION: "x"},
        {SESSION: ""},
        {SESSION: "0"},
        {HEARTBEAT: "4999"},
        {HEARTBEAT: "15001"},
        {"session.timeout.ms": "45000"},
        {"group.consumer.session.timeout.ms": "45000"},
        {"share.auto.offset.reset": "by_duration:P"},
        {"share.auto.offset.reset": "by_duration:PT"},
        {"share.isolation.level": "nonsense"},
        {"share.record.lock.duration.ms": "999"},
        {"streams.num.standby.replicas": "3"},
    ],
)
def test_what_a_group_cannot_have_is_refused(config: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting):
        validate_group(config, parse_broker({}))


@pytest.mark.parametrize(
    "config",
    [
        {},
        {SESSION: "45000", HEARTBEAT: "15000"},
        {SESSION: " 60000 "},
        {"share.auto.offset.reset": "by_duration:P1DT2H3M4.5S"},
        {"share.session.timeout.ms": "46000", "streams.num.standby.replicas": "2"},
    ],
)
def test_what_lies_within_the_bounds_is_taken(config: dict[str, str]) -> None:
    assert refusal_of(lambda: validate_group(config, parse_broker({}))) is None


@pytest.mark.parametrize("config", [{HEARTBEAT: "3000"}, {SESSION: "2000"}])
def test_a_session_must_outlast_the_heartbeats_of_group_and_broker_together(
    config: dict[str, str],
) -> None:
    with pytest.raises(InvalidSetting, match=f"greater than {HEARTBEAT}"):
        validate_group(config, parse_broker(BRISK))
    longer = {SESSION: "4000", HEARTBEAT: "3000"}
    assert refusal_of(lambda: validate_group(longer, parse_broker(BRISK))) is None


def test_a_groups_own_settings_hold_for_it_alone() -> None:
    broker = parse_broker(BRISK).groups
    image = image_with({SESSION: "4000", HEARTBEAT: "500"})
    own = effective_group("g", image, broker)
    assert own.group_consumer_session_timeout_ms == 4000
    assert own.group_consumer_heartbeat_interval_ms == 500
    assert effective_group("h", image, broker) == broker


def test_a_default_of_a_group_is_the_brokers_setting() -> None:
    for name, setting in SINGLE_GROUP_SETTINGS.items():
        server = BROKER_SETTINGS.get(f"group.{name}")
        assert setting.default == (server.default if server is not None else setting.default)
        assert setting.default
        setting.parse(setting.default)
    assert list(SINGLE_GROUP_SETTINGS) == sorted(SINGLE_GROUP_SETTINGS)


def test_each_value_is_told_with_the_places_it_was_found_in() -> None:
    standpoint = Standpoint(
        metadata=image_with({SESSION: " 4000 "}), static=parse_broker(BRISK), node_id=NodeId(1)
    )
    described = {one.name: one for one in describe_group(standpoint, "g")}
    session = described[SESSION]
    assert (session.value, session.source) == ("4000", Source.GROUP)
    assert [(one.name, one.value, one.source) for one in session.synonyms] == [
        (SESSION, "4000", Source.GROUP),
        (f"group.{SESSION}", "3000", Source.STATIC_BROKER),
        (f"group.{SESSION}", "45000", Source.DEFAULT),
    ]
    assert described[HEARTBEAT].source == Source.STATIC_BROKER
    assert described["share.isolation.level"].value == "read_uncommitted"
    assert described.keys() == SINGLE_GROUP_SETTINGS.keys()
