"""Names that Apache Kafka has dropped: ignored and told, or refused where that would be wrong."""

import pytest

from penstock.model.settings.broker import BROKER_SETTINGS, parse_broker, with_dynamic
from penstock.model.settings.retired import RETIRED
from penstock.model.settings.setting import InvalidSetting, UnknownSetting


def test_no_name_of_the_past_is_a_setting_of_today_and_what_replaces_it_is() -> None:
    assert RETIRED.keys().isdisjoint(BROKER_SETTINGS)
    for retired in RETIRED.values():
        assert retired.instead is None or retired.instead in BROKER_SETTINGS, retired


@pytest.mark.parametrize("name", sorted(RETIRED))
def test_it_is_ignored_and_told_however_alike_it_is_to_another_name(name: str) -> None:
    settings = parse_broker({name: "1", "num.partitions": "4"})
    assert [retired.name for retired in settings.retired] == [name]
    assert settings.num_partitions == 4
    assert settings.unknown == ()
    assert name not in settings.given


def test_typos_of_names_of_today_are_still_refused() -> None:
    with pytest.raises(UnknownSetting, match="did you mean"):
        parse_broker({"log.message.timestamp.afer.max.ms": "1"})


def test_zookeeper_mode_is_refused_with_every_name_to_remove() -> None:
    given = {"zookeeper.connect": "h:2181", "zookeeper.session.timeout.ms": "1"}
    names = r"remove zookeeper\.connect, zookeeper\.session\.timeout\.ms$"
    with pytest.raises(
        InvalidSetting, match=rf"zookeeper\.connect: No ZooKeeper is needed.*{names}"
    ):
        parse_broker({**given, "broker.id": "1"})


def test_what_zookeeper_mode_left_in_a_file_of_kraft_mode_is_ignored() -> None:
    given = {"zookeeper.connect": "h:2181", "zookeeper.session.timeout.ms": "1"}
    settings = parse_broker({**given, "process.roles": "broker,controller"})
    assert [retired.name for retired in settings.retired] == sorted(given)


def test_node_in_migration_from_zookeeper_is_refused() -> None:
    given = {"process.roles": "broker,controller", "zookeeper.metadata.migration.enable": "true"}
    with pytest.raises(InvalidSetting, match="cannot be moved here"):
        parse_broker(given)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("port", "use listeners=PLAINTEXT://HOST:PORT"),
        ("host.name", "use listeners=PLAINTEXT://HOST:PORT"),
        ("advertised.port", "use advertised.listeners="),
        ("advertised.host.name", "use advertised.listeners="),
        ("password.encoder.secret", "passwords are stored as they are"),
    ],
)
def test_what_must_not_be_ignored_is_refused(name: str, said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        parse_broker({name: "9092"})


def test_secret_is_not_shown() -> None:
    with pytest.raises(InvalidSetting) as refused:
        parse_broker({"password.encoder.secret": "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_dynamic_settings_keep_what_was_told() -> None:
    settings = parse_broker({"log.message.format.version": "3.9"})
    laid_over = with_dynamic(settings, cluster={"log.retention.ms": "1"}, broker={})
    assert laid_over.retired == settings.retired
