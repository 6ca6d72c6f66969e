"""Adding and removing access control entries. Each part of a request stands by itself."""

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.topics import TOO_LARGE
from penstock.metadata.image.acls import acl_record
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.security.acl.entry import Acl, AclId, InvalidAcl, check_acl
from penstock.security.acl.filter import AclFilter, check_filter
from penstock.security.acl.messages import acl_of_creation, filter_of, matching_acl
from penstock.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from penstock.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from penstock.wire.messages.metadata_records.access_control import RemoveAccessControlEntryRecord


def create_acls(
    context: DecisionContext, request: CreateAclsRequest
) -> Decision[MetadataRecord, CreateAclsResponse]:
    """An entry that is there already is not added again, and is no error."""
    records: list[MetadataRecord] = []
    results: list[AclCreationResult] = []
    known = context.state.acl_ids
    added: set[Acl] = set()
    for creation, fresh_id in zip(request.creations, context.fresh_ids, strict=False):
        acl = acl_of_creation(creation)
        try:
            check_acl(acl)
        except InvalidAcl as error:
            results.append(
                AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=str(error))
            )
            continue
        results.append(AclCreationResult())
        if acl not in known and acl not in added:
            added.add(acl)
            records.append(acl_record(AclId(fresh_id), acl))
    assert len(results) == len(request.creations)
    return Decision(records=tuple(records), reply=CreateAclsResponse(results=results))


def delete_acls(
    context: DecisionContext, request: DeleteAclsRequest
) -> Decision[MetadataRecord, DeleteAclsResponse]:
    """An entry that several filters match is named in the result of each."""
    removed: dict[AclId, None] = {}
    results = [_delete(context, asked, removed) for asked in request.filters]
    if len(removed) > DECISION_RECORDS_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    return Decision(
        records=tuple(RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed),
        reply=DeleteAclsResponse(filter_results=results),
    )


def _delete(
    context: DecisionContext, asked: DeleteAclsFilter, removed: dict[AclId, None]
) -> DeleteAclsFilterResult:
    wanted: AclFilter = filter_of(asked)
    try:
        check_filter(wanted)
    except InvalidAcl as error:
        return DeleteAclsFilterResult(
            error_code=ErrorCode.INVALID_REQUEST, error_message=str(error), matching_acls=[]
        )
    result = DeleteAclsFilterResult(matching_acls=[])
    for acl, acl_id in context.state.acl_ids.items():
        if wanted.matches(acl):
            removed[acl_id] = None
            result.matching_acls.append(matching_acl(acl))
    return result
