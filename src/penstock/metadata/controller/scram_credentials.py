"""Credentials for SCRAM: users gain and lose them (KIP-554).

What is asked for one user is done as a whole or not at all; other users are not concerned. The
controller is given salted passwords, and keeps of them only what verifies a log-in.
"""

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext, Refusal
from penstock.metadata.image.scram import ScramUser, credential_record
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode
from penstock.model.sasl import ScramMechanism
from penstock.security.sasl.scram_credential import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    credential_of,
    digest_bytes,
)
from penstock.wire.messages.alter_user_scram_credentials import (
    AlteredUser,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.wire.messages.metadata_records.user_scram_credential import (
    RemoveUserScramCredentialRecord,
)

NAME_BYTES_MAX = 1024
SALT_BYTES_MAX = 1024
Change = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_scram_credentials(
    context: DecisionContext, request: AlterUserScramCredentialsRequest
) -> Decision[MetadataRecord, AlterUserScramCredentialsResponse]:
    by_user: dict[str, list[Change]] = {}
    changes: list[Change] = [*request.deletions, *request.upsertions]
    for change in changes:
        by_user.setdefault(change.name, []).append(change)
    records: list[MetadataRecord] = []
    results: list[AlteredUser] = []
    for name, of_user in by_user.items():
        outcome = _altered(context, of_user)
        if isinstance(outcome, Refusal):
            results.append(
                AlteredUser(user=name, error_code=outcome.code, error_message=outcome.message)
            )
        else:
            records.extend(outcome)
            results.append(AlteredUser(user=name))
    return Decision(
        records=tuple(records), reply=AlterUserScramCredentialsResponse(results=results)
    )


def _altered(context: DecisionContext, changes: list[Change]) -> list[MetadataRecord] | Refusal:
    records: list[MetadataRecord] = []
    if len({change.mechanism for change in changes}) < len(changes):
        return Refusal(
            code=ErrorCode.DUPLICATE_RESOURCE,
            message="A user credential cannot be altered twice in the same request",
        )
    for change in changes:
        if not 0 < len(change.name.encode()) <= NAME_BYTES_MAX:
            return Refusal(
                code=ErrorCode.UNACCEPTABLE_CREDENTIAL,
                message=f"Username must have 1 to {NAME_BYTES_MAX} bytes",
            )
        try:
            user = ScramUser(change.name, ScramMechanism(change.mechanism))
        except ValueError:
            return Refusal(
                code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, message="Unknown SCRAM mechanism"
            )
        if isinstance(change, ScramCredentialDeletion):
            if user not in context.state.scram_credentials:
                return Refusal(
                    code=ErrorCode.RESOURCE_NOT_FOUND,
                    message="Attempt to delete a user credential that does not exist",
                )
            records.append(
                RemoveUserScramCredentialRecord(name=user.name, mechanism=user.mechanism)
            )
            continue
        fault = _fault(user.mechanism, change)
        if fault is not None:
            return Refusal(code=ErrorCode.UNACCEPTABLE_CREDENTIAL, message=fault)
        credential = credential_of(
            user.mechanism,
            bytes(change.salted_password),
            salt=bytes(change.salt),
            iterations=change.iterations,
        )
        records.append(credential_record(user, credential))
    return records


def _fault(mechanism: ScramMechanism, change: ScramCredentialUpsertion) -> str | None:
    if change.iterations < ITERATIONS_MIN:
        return f"Too few iterations: at least {ITERATIONS_MIN} are needed"
    if change.iterations > ITERATIONS_MAX:
        return f"Too many iterations: at most {ITERATIONS_MAX} are allowed"
    if not 0 < len(change.salt) <= SALT_BYTES_MAX:
        return f"Salt must have 1 to {SALT_BYTES_MAX} bytes"
    if len(change.salted_password) != digest_bytes(mechanism):
        return f"Salted password must have {digest_bytes(mechanism)} bytes"
    return None
