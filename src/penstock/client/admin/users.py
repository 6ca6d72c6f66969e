"""Users that log in by SCRAM: who there are, and setting and removing their passwords (KIP-554).

Passwords are salted and iterated here; the cluster is told what that leads to.
"""

from collections.abc import Callable, Iterable, Mapping

from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused, error_code
from penstock.model.error import ErrorCode
from penstock.model.sasl import ScramMechanism
from penstock.security.sasl.scram_credential import ITERATIONS_MIN, SALT_BYTES, salted_password
from penstock.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

Iterations = Mapping[ScramMechanism, int]


async def list_users(
    cluster: Cluster, names: Iterable[str] = ()
) -> dict[str, Iterations | Refused]:
    """All users, or these, with their mechanisms and iterations, by name."""
    request = DescribeUserScramCredentialsRequest(
        users=[UserName(name=name) for name in names] or None
    )
    reply = await cluster.ask_controller(request, DescribeUserScramCredentialsResponse)
    code = error_code(reply.error_code)
    if code != ErrorCode.NONE:
        raise Refused(code, "users", reply.error_message)
    found: dict[str, Iterations | Refused] = {}
    for result in sorted(reply.results, key=lambda result: result.user):
        code = error_code(result.error_code)
        if code != ErrorCode.NONE:
            found[result.user] = Refused(code, result.user, result.error_message)
        else:
            found[result.user] = {
                ScramMechanism(info.mechanism): info.iterations
                for info in result.credential_infos
                if info.mechanism in list(ScramMechanism)
            }
    return found


async def set_password(
    cluster: Cluster,
    name: str,
    password: str,
    mechanisms: Iterable[ScramMechanism],
    *,
    random_bytes: Callable[[int], bytes],
    iterations: int = ITERATIONS_MIN,
) -> None:
    """Adds the user, or replaces its password. Refused when the cluster refuses it."""
    # One request for each: Apache Kafka refuses two credentials of a user in one.
    for mechanism in mechanisms:
        salt = random_bytes(SALT_BYTES)
        upsertion = ScramCredentialUpsertion(
            name=name,
            mechanism=mechanism,
            iterations=iterations,
            salt=salt,
            salted_password=salted_password(mechanism, password, salt=salt, iterations=iterations),
        )
        await _alter(cluster, AlterUserScramCredentialsRequest(upsertions=[upsertion]))


async def remove_user(cluster: Cluster, name: str, mechanisms: Iterable[ScramMechanism]) -> None:
    """Refused when there is no such user with one of the mechanisms."""
    for mechanism in mechanisms:
        deletion = ScramCredentialDeletion(name=name, mechanism=mechanism)
        await _alter(cluster, AlterUserScramCredentialsRequest(deletions=[deletion]))


async def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    reply = await cluster.ask_controller(request, AlterUserScramCredentialsResponse)
    for result in reply.results:
        code = error_code(result.error_code)
        if code != ErrorCode.NONE:
            raise Refused(code, result.user, result.error_message)
