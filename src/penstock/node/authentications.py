"""Which listeners of a node ask for a log-in, and the node's own log-ins at others.

A node without SASL has none of it, and does not import what it is made of (`node/logins`).
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from penstock.log.partition_log import PartitionLog
from penstock.metadata.image.image import Image
from penstock.metadata.records import MetadataRecord
from penstock.model.sasl import Mechanism
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.cluster_node import ClusterNode
from penstock.model.settings.setting import InvalidSetting
from penstock.world.ports import World
from penstock.world.tasks import TaskGroup

if TYPE_CHECKING:
    from penstock.broker.network.authentication import Authentication
    from penstock.client.network.sasl_login import SaslLogin


class NodeLogins:
    """InvalidSetting, when it is made, for settings by which nobody could log in."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        cluster: ClusterNode,
        world: World,
        group: TaskGroup,
        image: Callable[[], Image],
        log: PartitionLog,
        first_records: Iterable[MetadataRecord] | None,
        cluster_id: str,
    ) -> None:
        self.by_listener: Mapping[str, Authentication] = {}
        own = own_logins(settings, cluster, random_bytes=world.entropy.random_bytes)
        self.at_brokers, self.at_controllers = own
        listeners = listeners_with_sasl(cluster)
        if not listeners:
            return
        logins = import_module("penstock.node.logins")
        journalled = import_module("penstock.node.journalled_users")
        users = journalled.JournalledUsers(log, first_records or ())
        found: dict[str, Authentication] = {}
        for listener in listeners:
            taken = logins.logins_of(settings, listener)
            keys = None
            if Mechanism.OAUTHBEARER in taken.mechanisms:
                token_keys = _load_token_keys()
                of_tokens = settings.sasl_of(listener, Mechanism.OAUTHBEARER)
                keys = token_keys.TokenKeySource(of_tokens, world, listener=listener)
                group.start(keys.run(), name=f"keys of tokens {listener}")
            found[listener] = logins.authentication_of(
                taken,
                settings,
                world,
                image=image,
                before_image=users.current,
                cluster_id=cluster_id,
                keys=keys,
            )
        self.by_listener = found


def check_logins(settings: BrokerSettings, cluster: ClusterNode) -> None:
    """InvalidSetting for the first setting by which nobody could log in, here or at others."""
    for listener in listeners_with_sasl(cluster):
        taken = import_module("penstock.node.logins").logins_of(settings, listener)
        if Mechanism.OAUTHBEARER in taken.mechanisms:
            _load_token_keys()
    own_logins(settings, cluster, random_bytes=bytes)


def listeners_with_sasl(cluster: ClusterNode) -> list[str]:
    return [one.name for one in cluster.listeners.values() if one.security_protocol.has_sasl]


def own_logins(
    settings: BrokerSettings, cluster: ClusterNode, *, random_bytes: Callable[[int], bytes]
) -> "tuple[SaslLogin | None, SaslLogin | None]":
    """Of this node at brokers and at controllers; a cluster of its own has none."""
    if cluster.quorum.listener is None:
        return None, None

    def own(listener: str | None, mechanism_setting: str) -> "SaslLogin | None":
        if listener is None or not settings.protocol_of(listener).has_sasl:
            return None
        made: SaslLogin = import_module("penstock.node.logins").own_login(
            settings,
            listener=listener,
            mechanism_setting=mechanism_setting,
            random_bytes=random_bytes,
        )
        return made

    return (
        own(cluster.inter_broker_listener, "sasl.mechanism.inter.broker.protocol"),
        own(cluster.quorum.listener, "sasl.mechanism.controller.protocol"),
    )


def _load_token_keys() -> ModuleType:
    try:
        return import_module("penstock.node.token_keys")
    except ModuleNotFoundError as missing:
        raise InvalidSetting(
            name="sasl.enabled.mechanisms",
            value=Mechanism.OAUTHBEARER.value,
            expected=f"It needs the library {missing.name}: pip install 'penstock[oauth]'",
        ) from missing
