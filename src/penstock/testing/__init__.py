"""A broker inside a test: the pytest fixture `penstock`, and `running_broker` for everyone else.

    def test_order_arrives(penstock):
        place_order(penstock.bootstrap)
        [order] = penstock.records("orders", at_least=1)

docs/testing.md has the rest. pytest imports this package in every run of everyone who has Penstock
installed, so it must cost nothing: the names below are loaded when they are first used. This table
is the one place here that imports late.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.consume.fetched_data import ConsumedRecord
    from penstock.client.network.errors import Refused, TimedOut
    from penstock.model.error import ErrorCode, PenstockError
    from penstock.model.settings.setting import InvalidSetting
    from penstock.node.cluster_layout import LayoutRefused
    from penstock.testing.broker import Broker, SettingValue, running_broker
    from penstock.testing.node_thread import BrokerFailed

__all__ = [
    "Broker",
    "BrokerFailed",
    "ConsumedRecord",
    "ErrorCode",
    "InvalidSetting",
    "LayoutRefused",
    "PenstockError",
    "Refused",
    "SettingValue",
    "TimedOut",
    "running_broker",
]

_HOME = {
    "Broker": "penstock.testing.broker",
    "BrokerFailed": "penstock.testing.node_thread",
    "ConsumedRecord": "penstock.client.consume.fetched_data",
    "ErrorCode": "penstock.model.error",
    "InvalidSetting": "penstock.model.settings.setting",
    "LayoutRefused": "penstock.node.cluster_layout",
    "PenstockError": "penstock.model.error",
    "Refused": "penstock.client.network.errors",
    "SettingValue": "penstock.testing.broker",
    "TimedOut": "penstock.client.network.errors",
    "running_broker": "penstock.testing.broker",
}
assert sorted(_HOME) == sorted(__all__)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
