"""The settings of access control, with Kafka's names and defaults.

They are settings of the broker like any other (`BrokerSettings.authorization` holds them). The last
two belong to Kafka's authorizer, which its list of settings does not show.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.setting import (
    Setting,
    SettingType,
    boolean,
    declare,
    declared,
)

_JOINED = re.compile(r",\s*User:")  # in no name that a certificate or a user would have
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def authorizer_class(text: str) -> str:
    """Apache Kafka loads any class; here is the one that it comes with."""
    if text not in ("", STANDARD_AUTHORIZER):
        raise ValueError(f"Expected {STANDARD_AUTHORIZER}, or nothing: then everyone may do all")
    return text


def principals(text: str) -> tuple[str, ...]:
    """`User:alice;User:bob`. A name may hold commas, as those of certificates do."""
    found = tuple(part.strip() for part in text.split(";") if part.strip())
    for principal in found:
        kind, separator, name = principal.partition(":")
        if not kind or not separator or not name:
            raise ValueError(f"Expected principals such as User:alice;User:bob, not {principal}")
        if _JOINED.search(name) is not None:
            raise ValueError(
                f"Principals are separated by semicolons: {_JOINED.sub(';User:', principal)}"
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationSettings:
    """Who may do what. Field names are Kafka's, with underscores."""

    authorizer_class_name: str = declare(
        "",
        SettingType.STRING,
        authorizer_class,
        f"{STANDARD_AUTHORIZER} for access control by ACLs; without it everyone may do all.",
    )
    super_users: tuple[str, ...] = declare(
        (),
        SettingType.STRING,
        principals,
        "Who may do everything, whatever the ACLs say: principals such as User:admin, separated "
        "by semicolons. The nodes of a cluster are among them.",
        internal=True,
    )
    allow_everyone_if_no_acl_found: bool = declare(
        False,
        SettingType.BOOLEAN,
        boolean,
        "Whether everyone may use a resource that no ACL is about.",
        internal=True,
    )


AUTHORIZATION_SETTINGS: Mapping[str, Setting] = MappingProxyType(declared(AuthorizationSettings))
