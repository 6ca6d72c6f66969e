"""IncrementalAlterConfigs and AlterConfigs, for topics, brokers and groups."""

import pytest

from penstock.metadata.effective import effective_broker, effective_topic
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.wire.messages import alter_configs as replacing
from penstock.wire.messages import incremental_alter_configs as incremental
from rig.cluster import Cluster

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, GROUP = ResourceKind.TOPIC, ResourceKind.BROKER, ResourceKind.GROUP


def alter(
    cluster: Cluster,
    kind: int,
    resource: str,
    *changes: tuple[str, int, str | None],
    only_validate: bool = False,
) -> tuple[int, str | None]:
    request = incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                resource_type=kind,
                resource_name=resource,
                configs=[
                    incremental.AlterableConfig(name=name, config_operation=operation, value=value)
                    for name, operation, value in changes
                ],
            )
        ],
        validate_only=only_validate,
    )
    reply = cluster.ask(request)
    assert isinstance(reply, incremental.IncrementalAlterConfigsResponse)
    (response,) = reply.responses
    return response.error_code, response.error_message


def replace(
    cluster: Cluster, kind: int, resource: str, **config: str | None
) -> tuple[int, str | None]:
    request = replacing.AlterConfigsRequest(
        resources=[
            replacing.AlterConfigsResource(
                resource_type=kind,
                resource_name=resource,
                configs=[
                    replacing.AlterableConfig(name=name.replace("_", "."), value=value)
                    for name, value in config.items()
                ],
            )
        ]
    )
    reply = cluster.ask(request)
    assert isinstance(reply, replacing.AlterConfigsResponse)
    (response,) = reply.responses
    return response.error_code, response.error_message


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create("orders")
    return cluster


def test_a_setting_is_set_changed_and_deleted(cluster: Cluster) -> None:
    assert alter(cluster, TOPIC, "orders", ("retention.ms", SET, "1000")) == (0, None)
    assert alter(cluster, TOPIC, "orders", ("segment.ms", SET, "7")) == (0, None)
    assert cluster.image.config(TOPIC, "orders") == {"retention.ms": "1000", "segment.ms": "7"}
    alter(cluster, TOPIC, "orders", ("retention.ms", SET, "2000"), ("segment.ms", DELETE, None))
    assert cluster.image.config(TOPIC, "orders") == {"retention.ms": "2000"}


def test_lists_are_edited_in_place(cluster: Cluster) -> None:
    alter(cluster, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))
    assert cluster.image.config(TOPIC, "orders") == {"cleanup.policy": "delete,compact"}
    alter(cluster, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))
    alter(cluster, TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete"))
    assert cluster.image.config(TOPIC, "orders") == {"cleanup.policy": "compact"}


def test_a_change_that_changes_nothing_writes_nothing(cluster: Cluster) -> None:
    alter(cluster, TOPIC, "orders", ("retention.ms", SET, "1000"))
    written = len(cluster.records)
    assert alter(cluster, TOPIC, "orders", ("retention.ms", SET, "1000")) == (0, None)
    assert alter(cluster, TOPIC, "orders", ("segment.ms", DELETE, None)) == (0, None)
    assert len(cluster.records) == written


def test_one_wrong_setting_leaves_the_whole_resource_as_it_was(cluster: Cluster) -> None:
    code, message = alter(
        cluster, TOPIC, "orders", ("retention.ms", SET, "1"), ("segment.bytes", SET, "x")
    )
    assert code == ErrorCode.INVALID_CONFIG
    assert message == "Invalid value x for configuration segment.bytes: Not a whole number"
    assert cluster.image.config(TOPIC, "orders") == {}


def test_validation_alone_changes_nothing(cluster: Cluster) -> None:
    change = ("retention.ms", SET, "1")
    assert alter(cluster, TOPIC, "orders", change, only_validate=True) == (0, None)
    assert cluster.image.config(TOPIC, "orders") == {}


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (TOPIC, "nowhere", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "a/b", ("retention.ms", SET, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "orders", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "orders", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "orders", ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", ("colour", SET, "red"), ErrorCode.INVALID_CONFIG),
        (BROKER, "9", ("message.max.bytes", SET, "1"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (BROKER, "one", ("message.max.bytes", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("node.id", SET, "2"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("message.max.bytes", SET, "-1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ("ssl.keystore.location", SET, "/x"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("colour", SET, "red"), ErrorCode.INVALID_CONFIG),
        (BROKER, "1", ("cordoned.log.dirs", APPEND, "/disks/a"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ("cordoned.log.dirs", SET, "*"), ErrorCode.INVALID_REQUEST),
        (GROUP, "", ("consumer.session.timeout.ms", SET, "50000"), ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "1"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", ("retention.ms", SET, "1"), ErrorCode.INVALID_CONFIG),
        (16, "metrics", ("interval.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (99, "x", ("y", SET, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_altered_is_refused(
    cluster: Cluster, kind: int, name: str, change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    before = cluster.image
    found, message = alter(cluster, kind, name, change)
    assert found == code
    assert message
    assert cluster.image is before


def test_a_setting_named_twice_is_refused(cluster: Cluster) -> None:
    code, _ = alter(
        cluster, TOPIC, "orders", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)
    )
    assert code == ErrorCode.INVALID_REQUEST


def test_brokers_have_settings_of_their_own_and_in_common(cluster: Cluster) -> None:
    alter(cluster, BROKER, "", ("message.max.bytes", SET, "2000"))
    alter(cluster, BROKER, "1", ("log.retention.ms", SET, "3000"))
    broker = effective_broker(cluster.settings, cluster.image, NodeId(1))
    assert (broker.message_max_bytes, broker.log_retention_ms) == (2000, 3000)
    topic = effective_topic("orders", cluster.image, broker)
    assert (topic.max_message_bytes, topic.retention_ms) == (2000, 3000)
    alter(cluster, BROKER, "1", ("message.max.bytes", SET, "4000"))
    broker = effective_broker(cluster.settings, cluster.image, NodeId(1))
    assert effective_topic("orders", cluster.image, broker).max_message_bytes == 4000


def test_a_group_need_not_exist_to_have_settings(cluster: Cluster) -> None:
    change = ("consumer.session.timeout.ms", SET, "50000")
    assert alter(cluster, GROUP, "to come", change) == (0, None)
    assert cluster.image.config(GROUP, "to come") == {"consumer.session.timeout.ms": "50000"}
    alter(cluster, GROUP, "to come", ("consumer.session.timeout.ms", DELETE, None))
    assert (GROUP, "to come") not in cluster.image.configs


def test_replacing_removes_what_the_request_leaves_out(cluster: Cluster) -> None:
    replace(cluster, TOPIC, "orders", retention_ms="1", segment_ms="2")
    assert replace(cluster, TOPIC, "orders", segment_ms="3") == (0, None)
    assert cluster.image.config(TOPIC, "orders") == {"segment.ms": "3"}
    assert replace(cluster, TOPIC, "orders") == (0, None)
    assert (TOPIC, "orders") not in cluster.image.configs


def test_replacing_takes_no_empty_value(cluster: Cluster) -> None:
    code, _ = replace(cluster, TOPIC, "orders", retention_ms=None)
    assert code == ErrorCode.INVALID_REQUEST


def test_a_resource_named_twice_is_refused_both_times(cluster: Cluster) -> None:
    resource = incremental.AlterConfigsResource(resource_type=TOPIC, resource_name="orders")
    reply = cluster.ask(incremental.IncrementalAlterConfigsRequest(resources=[resource, resource]))
    assert isinstance(reply, incremental.IncrementalAlterConfigsResponse)
    codes = [response.error_code for response in reply.responses]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2
