"""Topics that come and go; their partitions are records of their own."""

from penstock.wire.definition import Message, string, uuid


class TopicRecord(Message, key=2, versions="0", flexible_from=0):
    name: str = string()
    topic_id: bytes = uuid()


class RemoveTopicRecord(Message, key=9, versions="0", flexible_from=0):
    topic_id: bytes = uuid()
