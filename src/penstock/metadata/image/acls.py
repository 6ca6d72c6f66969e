"""Access control entries in the image: by id, as records name them, and indexed for decisions."""

from collections.abc import Mapping

from penstock.metadata.image.shared_map import SharedMap, shared
from penstock.security.acl.entry import Acl, AclId, ResourcePattern
from penstock.security.acl.index import NO_ENTRIES, with_acl, without_acl
from penstock.security.acl.words import AclOperation, PatternType, Permission, ResourceType
from penstock.wire.messages.metadata_records.access_control import AccessControlEntryRecord

Entries = Mapping[str, tuple[Acl, ...]]  # of one pattern, by principal


def acl_of(record: AccessControlEntryRecord) -> Acl:
    return Acl(
        pattern=ResourcePattern(
            ResourceType(record.resource_type),
            record.resource_name,
            PatternType(record.pattern_type),
        ),
        principal=record.principal,
        host=record.host,
        operation=AclOperation(record.operation),
        permission=Permission(record.permission_type),
    )


def acl_record(acl_id: AclId, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def changed_index(
    index: Mapping[ResourcePattern, Entries],
    *,
    removed: list[Acl],
    added: list[Acl],
) -> SharedMap[ResourcePattern, Entries]:
    """The index after a change; the same one when nothing changed."""
    base = shared(index)
    touched: dict[ResourcePattern, Entries] = {}
    for acl in removed:
        entries = touched.get(acl.pattern)
        touched[acl.pattern] = without_acl(base[acl.pattern] if entries is None else entries, acl)
    for acl in added:
        entries = touched.get(acl.pattern)
        if entries is None:
            entries = base.get(acl.pattern, NO_ENTRIES)
        touched[acl.pattern] = with_acl(entries, acl)
    return base.changed(
        {pattern: entries for pattern, entries in touched.items() if entries},
        without=[
            pattern for pattern, entries in touched.items() if not entries and pattern in base
        ],
    )
