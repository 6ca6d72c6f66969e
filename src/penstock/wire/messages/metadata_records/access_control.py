"""An access control entry that was added, and one that was removed."""

from penstock.wire.definition import Message, int8, string, uuid


class AccessControlEntryRecord(Message, key=18, versions="0", flexible_from=0):
    id: bytes = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class RemoveAccessControlEntryRecord(Message, key=19, versions="0", flexible_from=0):
    id: bytes = uuid()
