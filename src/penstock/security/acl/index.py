"""How the index of entries changes with one entry: see `rules.AclIndex`."""

from collections.abc import Mapping

from penstock.security.acl.entry import Acl

NO_ENTRIES: Mapping[str, tuple[Acl, ...]] = {}


def with_acl(entries: Mapping[str, tuple[Acl, ...]], acl: Acl) -> dict[str, tuple[Acl, ...]]:
    """The entries of one pattern, with one more."""
    return {**entries, acl.principal: (*entries.get(acl.principal, ()), acl)}


def without_acl(entries: Mapping[str, tuple[Acl, ...]], acl: Acl) -> dict[str, tuple[Acl, ...]]:
    """The entries of one pattern, without one that is among them."""
    left = [entry for entry in entries[acl.principal] if entry != acl]
    assert len(left) == len(entries[acl.principal]) - 1, acl
    changed = {**entries, acl.principal: tuple(left)}
    if not left:
        del changed[acl.principal]
    return changed
