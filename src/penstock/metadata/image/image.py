"""The whole cluster at one offset of the metadata log, and what changed between two of them."""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import NamedTuple

from penstock.metadata.image.acls import Entries
from penstock.metadata.image.broker import BrokerImage
from penstock.metadata.image.controller import ControllerImage
from penstock.metadata.image.scram import ScramUser
from penstock.metadata.image.shared_map import shared
from penstock.metadata.image.topic import TopicImage
from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId, TopicId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset
from penstock.security.acl.entry import Acl, AclId, ResourcePattern
from penstock.security.acl.index import compared
from penstock.security.delegation_token import DelegationToken
from penstock.security.sasl.scram_credential import ScramCredential

FIRST_OFFSET = Offset(0)
FIRST_EPOCH = LeaderEpoch(0)


class ConfigResource(NamedTuple):
    """The owner of a configuration. The broker named "" stands for all brokers."""

    kind: ResourceKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The cluster up to, and without, `offset` of the metadata log; `epoch` is that of its last
    record. `Image()` is the empty cluster before the first record. The next image shares with it
    what did not change (`shared_map`).
    """

    offset: Offset = FIRST_OFFSET
    epoch: LeaderEpoch = FIRST_EPOCH
    brokers: Mapping[NodeId, BrokerImage] = field(default_factory=dict)
    controllers: Mapping[NodeId, ControllerImage] = field(default_factory=dict)
    topics_by_name: Mapping[str, TopicImage] = field(default_factory=shared)
    topics_by_id: Mapping[TopicId, TopicImage] = field(default_factory=shared)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=shared)
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    scram_credentials: Mapping[ScramUser, ScramCredential] = field(default_factory=shared)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=shared)  # by id
    acls: Mapping[AclId, Acl] = field(default_factory=shared)
    acls_by_pattern: Mapping[ResourcePattern, Entries] = field(default_factory=shared)

    def config(self, kind: ResourceKind, name: str) -> Mapping[str, str]:
        """What was set on one resource; nothing for one that has no settings of its own."""
        return self.configs.get(ConfigResource(kind, name), NO_CONFIG)

    def check(self) -> None:
        """1 Both views hold the same topics. 2 Topics have partitions. 3 Configs have owners.
        4 The index of ACLs has each of them once.
        """
        assert len(self.topics_by_name) == len(self.topics_by_id)
        for topic_id, topic in self.topics_by_id.items():
            assert topic.topic_id == topic_id, topic
            assert self.topics_by_name[topic.name] is topic, topic
            assert topic.partitions, topic
        for resource, config in self.configs.items():
            assert config, resource
            known = resource.kind != ResourceKind.TOPIC or resource.name in self.topics_by_name
            assert known, resource
        indexed = [
            acl
            for entries in self.acls_by_pattern.values()
            for of_principal in entries.values()
            for acl in of_principal
        ]
        assert len(indexed) == len(self.acls)
        assert set(indexed) == {compared(acl) for acl in self.acls.values()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What one step changed, in the order of the log. React to deletions first: a topic may be
    deleted and created again, under another id, within one step.
    """

    topics_deleted: tuple[TopicImage, ...] = ()  # as they last were
    topics_created: tuple[TopicImage, ...] = ()
    topics_changed: tuple[TopicImage, ...] = ()  # as they are now
    configs_changed: tuple[ConfigResource, ...] = ()  # those of deleted topics are not listed
    brokers_changed: tuple[NodeId, ...] = ()  # registered, fenced, unfenced or gone
    controllers_changed: tuple[NodeId, ...] = ()  # registered
    features_changed: tuple[str, ...] = ()
    scram_users_changed: tuple[ScramUser, ...] = ()  # set or removed
    delegation_tokens_changed: tuple[str, ...] = ()  # created, renewed or removed
    acls_changed: bool = False


NO_CONFIG: Mapping[str, str] = MappingProxyType({})
