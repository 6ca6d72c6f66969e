"""A broker inside a test: the pytest fixture `penstock`, and `running_broker` for everyone else.

    def test_order_arrives(penstock):
        topic = penstock.topic(partitions=3)
        producer = confluent_kafka.Producer({"bootstrap.servers": penstock.bootstrap})

pytest imports this package in every run of everyone who has Penstock installed, so it must cost
nothing: the names below are loaded when they are first used. This table is the one place here that
imports late.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.testing.broker import Broker, BrokerFailed, running_broker

__all__ = ["Broker", "BrokerFailed", "running_broker"]

_HOME = dict.fromkeys(__all__, "penstock.testing.broker")


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
