"""Who may read along and who may do what: TLS and ACLs."""

from collections.abc import Iterator, Mapping

from penstock.doctor.finding import (
    Advice,
    Command,
    Fault,
    Finding,
    Mend,
    counted,
    fail,
    finding,
    unknown,
    warn,
)
from penstock.doctor.seen import AclsSeen, ClusterSeen, Limits, Settings, Unseen
from penstock.model.settings.listener import SecurityProtocol
from penstock.security.acl.entry import Acl
from penstock.security.acl.words import (
    ANY_NAME,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

EVERYBODY = "User:*"
USE_TLS = Advice(text="give the listeners SSL or SASL_SSL: docs/tls.md")
USE_ACLS = Advice(
    text="set authorizer.class.name and super.users on every node: docs/access-control.md"
)
HARMLESS = (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
OPTIONS: Mapping[ResourceType, str] = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.USER: "--user",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
}


def tls(seen: ClusterSeen, limits: Limits) -> Finding:
    faults = []
    if not seen.protocol.has_tls:
        faults.append(fail(f"this connection is {seen.protocol}, not encrypted", USE_TLS))
    for node, settings in sorted(seen.broker_settings.items()):
        if isinstance(settings, Unseen):
            faults.append(unknown(settings.reason))
            continue
        plain = [listener for listener, protocol in _listeners(settings) if not protocol.has_tls]
        if plain:
            faults.append(warn(f"broker {node} listens without TLS: {', '.join(plain)}", USE_TLS))
    brokers = counted(len(seen.broker_settings), "broker")
    return finding("tls", faults, passed=f"this connection and all listeners of {brokers} use TLS")


def _listeners(settings: Settings) -> Iterator[tuple[str, SecurityProtocol]]:
    protocols = dict(
        one.strip().split(":", 1)
        for one in (settings.get("listener.security.protocol.map") or "").split(",")
        if ":" in one
    )
    for listener in (settings.get("listeners") or "").split(","):
        name = listener.strip().partition("://")[0].upper()
        protocol = protocols.get(name, name).upper()
        if protocol in SecurityProtocol.__members__:
            yield name, SecurityProtocol[protocol]


def acls(seen: ClusterSeen, limits: Limits) -> Finding:
    check = "acls"
    if isinstance(seen.acls, Unseen):
        return finding(check, [unknown(seen.acls.reason)], passed="")
    if not seen.acls.is_enabled:
        return finding(
            check, [fail("there is no authorizer: everyone may do everything", USE_ACLS)], passed=""
        )
    faults = []
    for node, settings in sorted(seen.broker_settings.items()):
        if not isinstance(settings, Unseen) and (
            settings.get("allow.everyone.if.no.acl.found") == "true"
        ):
            reason = f"broker {node} allows everyone what no ACL is about"
            advice = Advice(text="set allow.everyone.if.no.acl.found=false on every node")
            faults.append(fail(reason, advice))
    faults += [
        _open_to_everybody(seen.acls, acl)
        for acl in seen.acls.entries
        if acl.principal == EVERYBODY and acl.permission is Permission.ALLOW
    ]
    found = counted(len(seen.acls.entries), "entry").replace("entrys", "entries")
    return finding(check, faults, passed=f"{found}, none for everyone")


def _open_to_everybody(found: AclsSeen, acl: Acl) -> Fault:
    kind = acl.pattern.resource_type.name.lower()
    operation = acl.operation.name.lower()
    reason = f"everyone may {operation} {kind} {_pattern_name(acl)}"
    mend = _removal(found, acl)
    return warn(reason, mend) if acl.operation in HARMLESS else fail(reason, mend)


def _removal(found: AclsSeen, acl: Acl) -> Mend:
    """The command removes what has this pattern, principal and operation: denials too."""
    same = [
        one
        for one in found.entries
        if (one.pattern, one.principal, one.operation)
        == (acl.pattern, acl.principal, acl.operation)
    ]
    kind = acl.pattern.resource_type
    if any(one.permission is not Permission.ALLOW for one in same) or not (
        kind in OPTIONS or kind is ResourceType.CLUSTER
    ):
        return Advice(text="remove this entry; one beside it denies the same to everyone")
    about = ("--cluster",) if kind is ResourceType.CLUSTER else (OPTIONS[kind], _pattern_name(acl))
    operation = acl.operation.name.lower().replace("_", "-")
    return Command(
        verb="acls remove", options=("--principal", EVERYBODY, "--operation", operation, *about)
    )


def _pattern_name(acl: Acl) -> str:
    is_prefix = acl.pattern.pattern_type is PatternType.PREFIXED
    return f"{acl.pattern.name}{ANY_NAME}" if is_prefix else acl.pattern.name
