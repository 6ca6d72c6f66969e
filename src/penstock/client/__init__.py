"""A client of the protocol: sans-IO connection, producer, consumer, admin.

    settings = penstock.client.read_client_settings(Path("client.properties"))
    async with penstock.client.connect({"bootstrap.servers": "a:9092", **settings}) as cluster:
        async with penstock.client.Producer(cluster) as producer:
            await (await producer.send("orders", b"one"))

A node uses parts of this package: the names below are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.client.consume.consumer import Consumer
    from penstock.client.consume.group_consumer import GroupConsumer
    from penstock.client.network.client_settings import read_client_settings
    from penstock.client.network.cluster import Cluster
    from penstock.client.network.connect import connect
    from penstock.client.produce.producer import Producer
    from penstock.client.produce.transactional_producer import TransactionalProducer

__all__ = [
    "Admin",
    "Cluster",
    "Consumer",
    "GroupConsumer",
    "Producer",
    "TransactionalProducer",
    "connect",
    "read_client_settings",
]

_HOME = {
    "Admin": "penstock.client.admin.admin",
    "Cluster": "penstock.client.network.cluster",
    "Consumer": "penstock.client.consume.consumer",
    "GroupConsumer": "penstock.client.consume.group_consumer",
    "Producer": "penstock.client.produce.producer",
    "TransactionalProducer": "penstock.client.produce.transactional_producer",
    "connect": "penstock.client.network.connect",
    "read_client_settings": "penstock.client.network.client_settings",
}
assert sorted(_HOME) == sorted(__all__)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
