"""`--add-scram`: users of a cluster that is yet to begin."""

import base64

import pytest

from penstock.metadata.image.scram import credential_in
from penstock.model.sasl import ScramMechanism
from penstock.node.first_users import BadUser, parse_user
from penstock.security.sasl.scram_credential import new_credential, salted_password

SHA_256 = ScramMechanism.SCRAM_SHA_256
SALT = b"salt of the test"
ENCODED = base64.b64encode(SALT).decode()
SALTED = base64.b64encode(salted_password(SHA_256, "s3cret", salt=SALT, iterations=8192)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "SCRAM-SHA-256=[name=alice,password=s3cret,iterations=8192]",
        'scram-sha-256=[ name="alice" , password="s3cret", iterations=8192 ]',
        f"SCRAM-SHA-256=[name=alice,password=s3cret,salt={ENCODED},iterations=8192]",
        f'SCRAM-SHA-256=[name=alice,salt="{ENCODED}",saltedpassword="{SALTED}",iterations=8192]',
    ],
)
def test_a_user_is_read_as_kafkas_tool_takes_it(text: str) -> None:
    record = parse_user(text, random_bytes=lambda count: SALT)
    assert (record.name, record.mechanism) == ("alice", SHA_256)
    expected = new_credential(SHA_256, "s3cret", salt=SALT, iterations=8192)
    assert credential_in(record) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "alice",
        "PLAIN=[name=alice,password=s3cret]",
        "SCRAM-SHA-256=[password=s3cret]",
        "SCRAM-SHA-256=[name=alice]",
        "SCRAM-SHA-256=[name=alice,password=]",
        "SCRAM-SHA-256=[name=alice,password=s3cret,iterations=4095]",
        "SCRAM-SHA-256=[name=alice,password=s3cret,iterations=many]",
        "SCRAM-SHA-256=[name=alice,password=s3cret,password=s3cret]",
        "SCRAM-SHA-256=[name=alice,password=s3cret,colour=s3cret]",
        "SCRAM-SHA-256=[name=alice,password=s3cret,salt=s3cret!]",
        f"SCRAM-SHA-256=[name=alice,saltedpassword={SALTED}]",
        f"SCRAM-SHA-256=[name=alice,salt={ENCODED},saltedpassword={ENCODED}]",
    ],
)
def test_anything_else_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(BadUser) as refused:
        parse_user(text, random_bytes=lambda count: SALT)
    assert "s3cret" not in str(refused.value)
