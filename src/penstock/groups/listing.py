"""ListGroups, for the groups of one shard."""

from collections.abc import Iterable

from penstock.groups.group import Group, listed
from penstock.wire.messages.list_groups import ListedGroup, ListGroupsRequest


def list_groups(groups: Iterable[Group], request: ListGroupsRequest) -> list[ListedGroup]:
    """The groups whose state and type match the filters, ignoring case; an empty filter matches
    all.
    """
    states = {state.lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    return [
        entry
        for entry in map(listed, groups)
        if (not states or entry.group_state.lower() in states)
        and (not types or entry.group_type in types)
    ]
