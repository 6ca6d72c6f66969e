"""Users of a new cluster, in the syntax of `kafka-storage format --add-scram`:

    SCRAM-SHA-256=[name=alice,password=alice-secret,iterations=8192]
    SCRAM-SHA-512=[name=alice,salt="BASE64",saltedpassword="BASE64",iterations=4096]

Values may be quoted. Errors do not quote them: some are secrets.
"""

import base64
import binascii
import re
from collections.abc import Callable

from penstock.metadata.image.scram import ScramUser, credential_record
from penstock.model.error import PenstockError
from penstock.model.sasl import ScramMechanism
from penstock.security.sasl.scram_credential import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
    credential_of,
    digest_bytes,
    salted_password,
)
from penstock.wire.messages.metadata_records.user_scram_credential import (
    UserScramCredentialRecord,
)

FORM = re.compile(r"(?P<mechanism>[A-Za-z0-9-]+)=\[(?P<pairs>.*)\]", re.DOTALL)
PAIR = re.compile(
    r"""\s*(?P<name>[a-z]+)\s*=\s*(?:"(?P<quoted>[^"]*)"|(?P<bare>[^",]*))\s*(?:,|$)"""
)
KEYS = frozenset({"name", "password", "salt", "saltedpassword", "iterations"})
EXPECTED = "SCRAM-SHA-512=[name=NAME,password=PASSWORD,iterations=N]"


class BadUser(PenstockError):
    """A text that describes no user."""


def parse_user(text: str, *, random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    """BadUser, with what would be right."""
    found = FORM.fullmatch(text.strip())
    if found is None:
        raise BadUser(f"expected {EXPECTED}")
    by_name = {str(mechanism): mechanism for mechanism in ScramMechanism}
    mechanism = by_name.get(found["mechanism"].upper())
    if mechanism is None:
        raise BadUser(f"{found['mechanism']} is not one of {', '.join(by_name)}")
    values = _pairs(found["pairs"])
    name = values.get("name", "")
    if not name:
        raise BadUser(f"name is missing: expected {EXPECTED}")
    if ("password" in values) == ("saltedpassword" in values):
        raise BadUser("exactly one of password and saltedpassword is needed")
    if "saltedpassword" in values and "salt" not in values:
        raise BadUser("saltedpassword needs its salt")
    iterations = _iterations(values.get("iterations", str(ITERATIONS_MIN)))
    salt = _decoded(values, "salt") if "salt" in values else random_bytes(SALT_BYTES)
    if "password" in values:
        if not values["password"]:
            raise BadUser("password is empty")
        salted = salted_password(mechanism, values["password"], salt=salt, iterations=iterations)
    else:
        salted = _decoded(values, "saltedpassword")
        if len(salted) != digest_bytes(mechanism):
            raise BadUser(f"saltedpassword must have {digest_bytes(mechanism)} bytes")
    credential = credential_of(mechanism, salted, salt=salt, iterations=iterations)
    return credential_record(ScramUser(name, mechanism), credential)


def _pairs(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    position = 0
    while position < len(text):
        found = PAIR.match(text, position)
        if found is None or found["name"] not in KEYS or found["name"] in values:
            raise BadUser(f"expected {EXPECTED}; keys are {', '.join(sorted(KEYS))}, each once")
        quoted = found["quoted"]
        values[found["name"]] = found["bare"].strip() if quoted is None else quoted
        position = found.end()
    return values


def _iterations(text: str) -> int:
    if (
        not text.isascii()
        or not text.isdigit()
        or not (ITERATIONS_MIN <= int(text[:10]) <= ITERATIONS_MAX)
    ):
        raise BadUser(f"iterations must be {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return int(text)


def _decoded(values: dict[str, str], key: str) -> bytes:
    try:
        decoded = base64.b64decode(values[key], validate=True)
    except binascii.Error:
        raise BadUser(f"{key} is not base64") from None
    if not decoded:
        raise BadUser(f"{key} is empty")
    return decoded
