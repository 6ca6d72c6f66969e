"""What is told of subscriptions to the metrics of clients is what Apache Kafka tells."""

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
from penstock.wire.messages.list_config_resources import ListConfigResourcesRequest
from rig.dialogue import Dialogue

CLIENT_METRICS = 16
SET, DELETE, APPEND, SUBTRACT = range(4)
CHANGES: list[tuple[str, int, str | None]] = [
    ("interval.ms", SET, "1000"),
    ("interval.ms", SET, " 2000 "),
    ("interval.ms", SET, "99"),
    ("interval.ms", SET, "100"),
    ("interval.ms", SET, "3600001"),
    ("interval.ms", SET, "x"),
    ("interval.ms", SET, ""),
    ("interval.ms", SET, None),
    ("interval.ms", APPEND, "1000"),
    ("metrics", SET, "org.apache.kafka.producer., org.apache.kafka.consumer."),
    ("metrics", APPEND, "org.apache.kafka.admin."),
    ("metrics", SUBTRACT, "org.apache.kafka.consumer."),
    ("match", SET, "client_id=order-.*, client_source_port=[0-9]+"),
    ("match", SET, "client_id=(.*)=b"),
    ("match", SET, "client_id="),
    ("match", SET, "client_id=a=="),
    ("match", SET, "=a"),
    ("match", SET, "somebody=a"),
    ("match", SET, "client_id=("),
    ("match", SET, "client_id=a,"),
    ("no.such.setting", SET, "1"),
    ("no.such.setting", DELETE, None),
]


def settings_of_a_subscription(dialogue: Dialogue) -> None:
    name = dialogue.topic
    describe(dialogue, name)
    for setting, operation, value in CHANGES:
        alter(dialogue, name, setting, operation, value)
    dialogue.settle()
    describe(dialogue, name)
    assert name in listed(dialogue)
    replace(dialogue, name, {"interval.ms": "7000"})
    replace(dialogue, name, {"interval.ms": "1"})
    dialogue.settle()
    describe(dialogue, name)
    describe(dialogue, "")
    alter(dialogue, "", "interval.ms", SET, "1000")
    alter(dialogue, name, "interval.ms", DELETE, None)
    dialogue.settle()
    describe(dialogue, name)
    assert name not in listed(dialogue)


def alter(dialogue: Dialogue, name: str, setting: str, operation: int, value: str | None) -> None:
    change = AlterableConfig(name=setting, config_operation=operation, value=value)
    resource = AlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=name, configs=[change]
    )
    dialogue.ask(IncrementalAlterConfigsRequest(resources=[resource]), version=1)


def replace(dialogue: Dialogue, name: str, config: dict[str, str]) -> None:
    configs = [replacing.AlterableConfig(name=name, value=value) for name, value in config.items()]
    resource = replacing.AlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=name, configs=configs
    )
    dialogue.ask(replacing.AlterConfigsRequest(resources=[resource]), version=2)


def describe(dialogue: Dialogue, name: str) -> None:
    resource = DescribeConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=None
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
    ]
    dialogue.answers.append((result.error_code, told))


def listed(dialogue: Dialogue) -> list[str]:
    reply = dialogue.exchange(ListConfigResourcesRequest(), version=0)
    return [one.resource_name for one in reply.config_resources]


def test_settings_of_a_subscription_are_answered_as_by_apache_kafka(
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(settings_of_a_subscription)
