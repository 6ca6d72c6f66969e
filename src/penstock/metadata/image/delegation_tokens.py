"""Delegation tokens, as the image and the active controller hold them."""

from penstock.security.delegation_token import DelegationToken
from penstock.wire.messages.metadata_records.delegation_token import DelegationTokenRecord


def token_of(record: DelegationTokenRecord) -> DelegationToken:
    return DelegationToken(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issued_ms=record.issue_timestamp,
        max_ms=record.max_timestamp,
        expires_ms=record.expiration_timestamp,
    )


def token_record(token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        token_id=token.token_id,
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issued_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expires_ms,
    )
