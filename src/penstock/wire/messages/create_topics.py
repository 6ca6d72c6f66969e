"""CreateTopics: new topics, with their partitions, replicas and settings.

A partition or replica count of -1 asks for the broker's default. A tagged field of ours proposes a
topic's id: a broker that forwards the request may have to send it twice, and the controller then
knows the topic that it has made already. Apache Kafka passes it over.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    OWN_TAGS_FROM,
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    nullable,
    prose,
    string,
    tagged,
    uuid,
)


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32()
    broker_ids: list[int] = array(int32())


class CreatableTopicConfig(Struct):
    name: str = string()
    value: str | None = nullable(string())


class CreatableTopic(Struct):
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)
    proposed_id: bytes = tagged(OWN_TAGS_FROM, uuid("5+"))


class CreateTopicsRequest(Message, key=ApiKey.CREATE_TOPICS, versions="0-7", flexible_from=5):
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean("1+")


class CreatableTopicConfigs(Struct):
    name: str = string()
    value: str | None = nullable(string())
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


class CreatableTopicResult(Struct):
    name: str = string()
    topic_id: bytes = uuid("7+")
    error_code: int = int16()
    error_message: str | None = prose("1+")
    topic_config_error_code: int = tagged(0, int16("5+"))
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = nullable(array(CreatableTopicConfigs, "5+"))


class CreateTopicsResponse(Message, key=ApiKey.CREATE_TOPICS, versions="0-7", flexible_from=5):
    throttle_time_ms: int = int32("2+")
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
