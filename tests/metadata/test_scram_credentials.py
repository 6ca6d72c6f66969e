"""Users gain and lose credentials for SCRAM; snapshots keep them."""

import pytest

from penstock.metadata.image.difference import difference
from penstock.metadata.image.image import Image
from penstock.metadata.image.scram import ScramUser
from penstock.metadata.loader import Loader
from penstock.metadata.snapshot import image_records
from penstock.model.error import ErrorCode
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.sasl import ScramMechanism
from penstock.security.sasl.scram_credential import new_credential, salted_password
from penstock.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from rig.cluster import Cluster

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b"a salt"


def upsertion(
    name: str,
    password: str = "secret",
    mechanism: int = SHA_256,
    iterations: int = 4096,
    salt: bytes = SALT,
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=salted_password(
            ScramMechanism(mechanism), password, salt=SALT, iterations=4096
        )
        if mechanism in list(ScramMechanism)
        else b"x",
    )


def alter(
    cluster: Cluster, *changes: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, ErrorCode]:
    reply = cluster.ask(
        AlterUserScramCredentialsRequest(
            upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
            deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        )
    )
    assert isinstance(reply, AlterUserScramCredentialsResponse)
    return {result.user: ErrorCode(result.error_code) for result in reply.results}


def test_a_password_becomes_a_credential_that_verifies_it() -> None:
    cluster = Cluster()
    assert alter(cluster, upsertion("alice"), upsertion("alice", mechanism=SHA_512)) == {
        "alice": ErrorCode.NONE
    }
    assert cluster.image.scram_credentials == {
        ScramUser("alice", mechanism): new_credential(mechanism, "secret", salt=SALT)
        for mechanism in ScramMechanism
    }


def test_a_new_password_replaces_the_old_one() -> None:
    cluster = Cluster()
    alter(cluster, upsertion("alice", "old"))
    alter(cluster, upsertion("alice", "new"))
    user = ScramUser("alice", SHA_256)
    assert cluster.image.scram_credentials == {user: new_credential(SHA_256, "new", salt=SALT)}


def test_a_removed_credential_is_gone_and_others_stay() -> None:
    cluster = Cluster()
    alter(cluster, upsertion("alice"), upsertion("bob"))
    assert alter(cluster, ScramCredentialDeletion(name="alice", mechanism=SHA_256)) == {
        "alice": ErrorCode.NONE
    }
    assert list(cluster.image.scram_credentials) == [ScramUser("bob", SHA_256)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a" * 2000), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a", salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (
            ScramCredentialUpsertion(
                name="a", mechanism=1, iterations=4096, salt=SALT, salted_password=b"short"
            ),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
        ),
        (upsertion("a", mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion("a", mechanism=9), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (ScramCredentialDeletion(name="a", mechanism=1), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_what_cannot_be_done_is_refused_for_its_user_alone(
    change: ScramCredentialUpsertion | ScramCredentialDeletion, code: ErrorCode
) -> None:
    cluster = Cluster()
    assert alter(cluster, change, upsertion("bob")) == {change.name: code, "bob": ErrorCode.NONE}
    assert list(cluster.image.scram_credentials) == [ScramUser("bob", SHA_256)]


def test_a_user_is_altered_as_a_whole_or_not_at_all() -> None:
    cluster = Cluster()
    refused = alter(cluster, upsertion("alice"), upsertion("alice", mechanism=9))
    assert refused == {"alice": ErrorCode.UNSUPPORTED_SASL_MECHANISM}
    twice = alter(cluster, upsertion("alice"), ScramCredentialDeletion(name="alice", mechanism=1))
    assert twice == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    assert not cluster.image.scram_credentials


def test_a_snapshot_keeps_credentials() -> None:
    cluster = Cluster()
    alter(cluster, upsertion("alice"), upsertion("bob", mechanism=SHA_512))
    loader = Loader()
    _, image = loader.load(
        image_records(cluster.image), next_offset=Offset(100), epoch=LeaderEpoch(1)
    )
    assert dict(image.scram_credentials) == dict(cluster.image.scram_credentials)
    assert difference(cluster.image, image).scram_users_changed == ()
    assert difference(Image(), image).scram_users_changed == tuple(image.scram_credentials)
