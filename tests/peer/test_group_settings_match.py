"""What is told of the settings of single groups is what Apache Kafka tells."""

from collections.abc import Callable

from penstock.wire.messages import alter_configs as replacing
from penstock.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from rig.dialogue import Dialogue

GROUP = 32
SET, DELETE, APPEND = range(3)
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
GIVEN_TO_THE_PEER = "consumer.assignment.interval.ms"  # so that its groups are not slow
CHANGES: list[tuple[str, int, str | None]] = [
    (SESSION, SET, "50000"),
    (SESSION, SET, " 51000 "),
    (SESSION, SET, "44999"),
    (SESSION, SET, "60001"),
    (HEARTBEAT, SET, "6000"),
    (HEARTBEAT, SET, "4999"),
    (HEARTBEAT, SET, "15001"),
    (SESSION, SET, "x"),
    (SESSION, SET, ""),
    (SESSION, SET, "0"),
    (SESSION, SET, None),
    (SESSION, APPEND, "1"),
    ("no.such.setting", SET, "1"),
    ("no.such.setting", DELETE, None),
    ("consumer.assignment.interval.ms", SET, "2000"),
    ("consumer.assignment.interval.ms", SET, "20000"),
    ("share.session.timeout.ms", SET, "46000"),
    ("share.auto.offset.reset", SET, "by_duration:PT1H"),
    ("share.auto.offset.reset", SET, "nonsense"),
    ("share.isolation.level", SET, "nonsense"),
    ("share.record.lock.duration.ms", SET, "5"),
    ("streams.num.standby.replicas", SET, "3"),
    (SESSION, DELETE, None),
]


def settings_of_a_group(dialogue: Dialogue) -> None:
    group = dialogue.topic
    describe(dialogue, group)
    for name, operation, value in CHANGES:
        change = AlterableConfig(name=name, config_operation=operation, value=value)
        alter(dialogue, group, change)
    dialogue.settle()
    describe(dialogue, group)
    replace(dialogue, group, {HEARTBEAT: "7000"})
    replace(dialogue, group, {HEARTBEAT: "1"})
    replace(dialogue, "", {HEARTBEAT: "7000"})
    dialogue.settle()
    describe(dialogue, group)
    describe(dialogue, "")
    alter(dialogue, "", AlterableConfig(name=SESSION, config_operation=SET, value="50000"))


def alter(dialogue: Dialogue, group: str, change: AlterableConfig) -> None:
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=[change])
    dialogue.ask(IncrementalAlterConfigsRequest(resources=[resource]), version=1)


def replace(dialogue: Dialogue, group: str, config: dict[str, str]) -> None:
    configs = [replacing.AlterableConfig(name=name, value=value) for name, value in config.items()]
    resource = replacing.AlterConfigsResource(
        resource_type=GROUP, resource_name=group, configs=configs
    )
    dialogue.ask(replacing.AlterConfigsRequest(resources=[resource]), version=2)


def describe(dialogue: Dialogue, group: str) -> None:
    resource = DescribeConfigsResource(
        resource_type=GROUP, resource_name=group, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    [result] = dialogue.exchange(request, version=4).results
    told = [
        (
            *(one.name, one.value, one.config_source, one.config_type),
            *(one.read_only, one.is_sensitive),
            [(synonym.name, synonym.value, synonym.source) for synonym in one.synonyms],
        )
        for one in sorted(result.configs, key=lambda config: str(config.name))
        if one.name != GIVEN_TO_THE_PEER
    ]
    dialogue.answers.append((result.error_code, told))


def test_settings_of_a_group_are_answered_as_by_apache_kafka(
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(settings_of_a_group)
