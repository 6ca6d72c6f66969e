"""DeleteTopics: by name, and from version 6 by name or id."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int16,
    int32,
    nullable,
    prose,
    string,
    uuid,
)


class DeleteTopicState(Struct):
    name: str | None = nullable(string(), default=None)
    topic_id: bytes = uuid()


class DeleteTopicsRequest(Message, key=ApiKey.DELETE_TOPICS, versions="0-6", flexible_from=4):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string(), "0-5")
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = nullable(string(), "6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16()
    error_message: str | None = prose("5+")


class DeleteTopicsResponse(Message, key=ApiKey.DELETE_TOPICS, versions="0-6", flexible_from=4):
    throttle_time_ms: int = int32("1+")
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
