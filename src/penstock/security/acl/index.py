"""How the index of entries changes with one entry: see `rules.AclIndex`.

The index holds entries as they are compared (`compared`). As they were written, and so as they are
listed and deleted, they are elsewhere (`Image.acls`).
"""

from collections.abc import Mapping
from dataclasses import replace

from penstock.model.host_address import comparable_host
from penstock.security.acl.entry import Acl
from penstock.security.acl.words import ANY_HOST

NO_ENTRIES: Mapping[str, tuple[Acl, ...]] = {}


def compared(acl: Acl) -> Acl:
    """The entry with its host in the form that clients have."""
    if acl.host == ANY_HOST:
        return acl
    host = comparable_host(acl.host)
    return acl if host == acl.host else replace(acl, host=host)


def with_acl(entries: Mapping[str, tuple[Acl, ...]], acl: Acl) -> dict[str, tuple[Acl, ...]]:
    """The entries of one pattern, with one more."""
    return {**entries, acl.principal: (*entries.get(acl.principal, ()), compared(acl))}


def without_acl(entries: Mapping[str, tuple[Acl, ...]], acl: Acl) -> dict[str, tuple[Acl, ...]]:
    """The entries of one pattern, without one that is among them."""
    left = list(entries[acl.principal])
    left.remove(compared(acl))  # one of them: two forms of a host are two entries
    changed = {**entries, acl.principal: tuple(left)}
    if not left:
        del changed[acl.principal]
    return changed
