"""The authorizer that a node's settings ask for."""

from penstock.model.settings.broker import BrokerSettings
from penstock.security.acl.authorizer import Authorizer
from penstock.security.principal import Principal


def authorizer_of(settings: BrokerSettings) -> Authorizer | None:
    """None when there is to be none: then everyone may do all."""
    chosen = settings.authorization
    if not chosen.authorizer_class_name:
        return None
    return Authorizer(
        super_users=frozenset(map(Principal.parse, chosen.super_users)),
        allow_everyone_if_no_acl_found=chosen.allow_everyone_if_no_acl_found,
    )
