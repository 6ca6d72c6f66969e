"""Entries and filters as the requests CreateAcls, DeleteAcls and DescribeAcls carry them."""

from collections.abc import Iterable
from enum import IntEnum
from typing import TypeVar

from penstock.security.acl.entry import Acl, ResourcePattern
from penstock.security.acl.filter import AclFilter
from penstock.security.acl.words import AclOperation, PatternType, Permission, ResourceType
from penstock.wire.messages.create_acls import AclCreation
from penstock.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsMatchingAcl
from penstock.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
)

Word = TypeVar("Word", bound=IntEnum)


def acl_of_creation(creation: AclCreation) -> Acl:
    return Acl(
        pattern=ResourcePattern(
            word(ResourceType, creation.resource_type),
            creation.resource_name,
            word(PatternType, creation.resource_pattern_type),
        ),
        principal=creation.principal,
        host=creation.host,
        operation=word(AclOperation, creation.operation),
        permission=word(Permission, creation.permission_type),
    )


def creation_of(acl: Acl) -> AclCreation:
    return AclCreation(
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        resource_pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def filter_of(asked: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    return AclFilter(
        resource_type=word(ResourceType, asked.resource_type_filter),
        name=asked.resource_name_filter,
        pattern_type=word(PatternType, asked.pattern_type_filter),
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=word(AclOperation, asked.operation),
        permission=word(Permission, asked.permission_type),
    )


def deletion_filter(wanted: AclFilter) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def description_request(wanted: AclFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def matching_acl(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def acl_of_match(match: DeleteAclsMatchingAcl) -> Acl:
    return Acl(
        pattern=ResourcePattern(
            word(ResourceType, match.resource_type),
            match.resource_name,
            word(PatternType, match.pattern_type),
        ),
        principal=match.principal,
        host=match.host,
        operation=word(AclOperation, match.operation),
        permission=word(Permission, match.permission_type),
    )


def described(acls: Iterable[Acl]) -> list[DescribeAclsResource]:
    """Entries gathered by their patterns."""
    by_pattern: dict[ResourcePattern, DescribeAclsResource] = {}
    for acl in acls:
        pattern = acl.pattern
        resource = by_pattern.get(pattern)
        if resource is None:
            resource = by_pattern[pattern] = DescribeAclsResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=[],
            )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return list(by_pattern.values())


def acls_of_description(resources: Iterable[DescribeAclsResource]) -> list[Acl]:
    return [
        Acl(
            pattern=ResourcePattern(
                word(ResourceType, resource.resource_type),
                resource.resource_name,
                word(PatternType, resource.pattern_type),
            ),
            principal=entry.principal,
            host=entry.host,
            operation=word(AclOperation, entry.operation),
            permission=word(Permission, entry.permission_type),
        )
        for resource in resources
        for entry in resource.acls
    ]


def word(words: type[Word], number: int) -> Word:
    """A number that nobody knows is UNKNOWN, which is 0."""
    try:
        return words(number)
    except ValueError:
        return words(0)
