"""The four messages of SCRAM (RFC 5802, section 7), as text and as values.

    client first   n,[a=AUTHZID],n=USER,r=NONCE[,extensions]
    server first   r=NONCE+OWN,s=SALT,i=ITERATIONS
    client final   c=base64(n,[a=AUTHZID],),r=NONCE+OWN,p=PROOF
    server final   v=SIGNATURE                       or e=ERROR

Channel binding is not supported: the header begins with n, or with y where the client would have
been able to. In a user's name `=2C` stands for a comma and `=3D` for an equals sign.
"""

import base64
import binascii
import re
from collections.abc import Mapping

from penstock.model.lazy_dataclass import dataclass

MESSAGE_BYTES_MAX = 8 * 1024
TOKEN_EXTENSION = "tokenauth"  # Kafka's: the user is a delegation token (KIP-48)
NAME = r"(?:[^=,\0]|=2C|=3D)+"
PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"  # without the comma
BASE64 = r"[A-Za-z0-9+/]+={0,2}"
EXTENSIONS = r"(?P<extensions>(?:,[a-zA-Z]+=[^,\0]*)*)"
CLIENT_FIRST = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authzid>{NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{NAME}),r=(?P<nonce>{PRINTABLE}){EXTENSIONS})"
)
SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>{PRINTABLE}),s=(?P<salt>{BASE64}),i=(?P<iterations>[1-9][0-9]{{0,9}}){EXTENSIONS}"
)
CLIENT_FINAL = re.compile(
    rf"(?P<unsigned>c=(?P<header>{BASE64}),r=(?P<nonce>{PRINTABLE}){EXTENSIONS}),p=(?P<proof>{BASE64})"
)
SERVER_FINAL = re.compile(rf"v=(?P<signature>{BASE64}){EXTENSIONS}")


class UnreadableMessage(ValueError):
    """A token that is not the message that is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFirst:
    header: str
    bare: str  # what is signed of it
    user: str
    authorization: str | None
    nonce: str
    extensions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFirst:
    text: str
    nonce: str
    salt: bytes
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFinal:
    unsigned: str  # all but the proof
    header: str
    nonce: str
    proof: bytes


def read_client_first(token: bytes) -> ClientFirst:
    found = _matched(CLIENT_FIRST, token)
    authorization = found["authzid"]
    return ClientFirst(
        header=found["header"],
        bare=found["bare"],
        user=_unescaped(found["user"]),
        authorization=None if authorization is None else _unescaped(authorization),
        nonce=found["nonce"],
        extensions=_extensions(found["extensions"]),
    )


def client_first_bare(user: str, nonce: str, *, by_token: bool = False) -> str:
    extension = f",{TOKEN_EXTENSION}=true" if by_token else ""
    return f"n={_escaped(user)},r={nonce}{extension}"


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    return f"r={nonce},s={base64.b64encode(salt).decode()},i={iterations}"


def read_server_first(token: bytes) -> ServerFirst:
    found = _matched(SERVER_FIRST, token)
    return ServerFirst(
        text=found[0],
        nonce=found["nonce"],
        salt=_decoded(found["salt"]),
        iterations=int(found["iterations"]),
    )


def client_final_unsigned(header: str, nonce: str) -> str:
    return f"c={base64.b64encode(header.encode()).decode()},r={nonce}"


def client_final(unsigned: str, proof: bytes) -> str:
    return f"{unsigned},p={base64.b64encode(proof).decode()}"


def read_client_final(token: bytes) -> ClientFinal:
    found = _matched(CLIENT_FINAL, token)
    try:
        header = _decoded(found["header"]).decode()
    except UnicodeDecodeError:
        raise UnreadableMessage("the channel binding is not UTF-8") from None
    return ClientFinal(
        unsigned=found["unsigned"],
        header=header,
        nonce=found["nonce"],
        proof=_decoded(found["proof"]),
    )


def server_final(signature: bytes) -> str:
    return f"v={base64.b64encode(signature).decode()}"


def read_server_final(token: bytes) -> bytes:
    """The server's signature."""
    return _decoded(_matched(SERVER_FINAL, token)["signature"])


def _matched(form: re.Pattern[str], token: bytes) -> re.Match[str]:
    if len(token) > MESSAGE_BYTES_MAX:
        raise UnreadableMessage("the message is too long")
    try:
        found = form.fullmatch(token.decode())
    except UnicodeDecodeError:
        raise UnreadableMessage("the message is not UTF-8") from None
    if found is None:
        raise UnreadableMessage("the message is not the one that is due")
    return found


def _extensions(text: str) -> dict[str, str]:
    return dict(item.split("=", 1) for item in text.split(",") if item)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise UnreadableMessage("a value is not base64") from None


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
