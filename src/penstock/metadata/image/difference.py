"""What lies between two images, when the records between them are not known: after a snapshot."""

from collections.abc import Mapping
from typing import TypeVar

from penstock.metadata.image.image import Delta, Image
from penstock.metadata.image.topic import TopicImage
from penstock.model.configs import ResourceKind

Key = TypeVar("Key")
Value = TypeVar("Value")


def difference(before: Image, after: Image) -> Delta:
    """The change from one image to another, as if it had come by records. Topics are the same when
    their ids are: one that was deleted and created again is both.
    """
    deleted = tuple(
        topic
        for topic_id, topic in before.topics_by_id.items()
        if topic_id not in after.topics_by_id
    )
    created: list[TopicImage] = []
    changed: list[TopicImage] = []
    for topic_id, topic in after.topics_by_id.items():
        known = before.topics_by_id.get(topic_id)
        if known is None:
            created.append(topic)
        elif known != topic:
            changed.append(topic)
    gone = {topic.name for topic in deleted}
    return Delta(
        topics_deleted=deleted,
        topics_created=tuple(created),
        topics_changed=tuple(changed),
        configs_changed=tuple(
            resource
            for resource in _changed(before.configs, after.configs)
            if resource.kind != ResourceKind.TOPIC
            or resource.name not in gone
            or resource.name in after.topics_by_name
        ),
        brokers_changed=tuple(_changed(before.brokers, after.brokers)),
        controllers_changed=tuple(_changed(before.controllers, after.controllers)),
        features_changed=tuple(_changed(before.features, after.features)),
        scram_users_changed=tuple(_changed(before.scram_credentials, after.scram_credentials)),
        delegation_tokens_changed=tuple(
            _changed(before.delegation_tokens, after.delegation_tokens)
        ),
        acls_changed=before.acls != after.acls,
    )


def _changed(before: Mapping[Key, Value], after: Mapping[Key, Value]) -> list[Key]:
    """The keys with another value, or with a value in one of them only."""
    keys = [key for key in before if key not in after]
    return keys + [key for key, value in after.items() if before.get(key) != value]
