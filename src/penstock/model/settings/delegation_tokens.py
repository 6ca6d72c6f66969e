"""The settings of delegation tokens (KIP-48), with Kafka's names and defaults.

They are settings of the broker like any other (`BrokerSettings.delegation_tokens` holds them).
Brokers and controllers of a cluster must have the same secret.
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.setting import (
    Setting,
    SettingType,
    any_text,
    declare,
    declared,
    int64,
    long,
)

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenSettings:
    """How long tokens count. Field names are Kafka's, with underscores."""

    delegation_token_secret_key: str | None = declare(
        None,
        SettingType.PASSWORD,
        any_text,
        "The secret by which tokens are made and verified, the same on all nodes; "
        "without it there are no delegation tokens.",
    )
    delegation_token_max_lifetime_ms: int = long(
        7 * DAY_MS, "How long a token can be renewed, at most.", int64(1)
    )
    delegation_token_expiry_time_ms: int = long(
        DAY_MS, "How long a token counts before it must be renewed, at most.", int64(1)
    )
    delegation_token_expiry_check_interval_ms: int = long(
        3_600_000, "How often tokens that have expired are removed.", int64(1)
    )

    @property
    def secret(self) -> str | None:
        """None when there are no delegation tokens here."""
        return self.delegation_token_secret_key or None


DELEGATION_TOKEN_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    declared(DelegationTokenSettings)
)
