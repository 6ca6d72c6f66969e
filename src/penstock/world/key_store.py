"""Private keys and certificates, as files and settings hold them.

    PEM      text: the key and its certificates in one file, or each in a setting of its own
    PKCS12   a file with a password, as keytool makes it by default
    JKS      Java's former format, which no library for Python reads: refused, with the way out

Since Java 9 a file that is called JKS may be a PKCS12 file in truth, and Java reads it as such. So
do we: the first bytes decide. Start reading at `read_key_store` and `read_trust_store`.
"""

import re
from importlib import import_module
from typing import Final, NoReturn

from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.setting import InvalidSetting, MissingSetting
from penstock.model.settings.tls import StoreType, TlsSettings
from penstock.world.errors import DiskError
from penstock.world.ports import Disk

JKS_MAGIC: Final = bytes.fromhex("feedfeed")
DER_SEQUENCE: Final = 0x30
BASE64_COLUMNS: Final = 64
BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
CERTIFICATE = "CERTIFICATE"
PRIVATE_KEY = "PRIVATE KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStore:
    """A private key and the certificate that belongs to it, with those that signed it."""

    key: str  # PEM, perhaps encrypted
    chain: str  # PEM, the own one first
    password: str | None  # of the key
    setting: str  # where they are from, to be named in errors
    shown: str  # its value, if that is no secret

    def __repr__(self) -> str:
        return "KeyStore(...)"  # nothing of a key goes to a log


def read_key_store(settings: TlsSettings, disk: Disk) -> KeyStore:
    """InvalidSetting when there is none, or it can't be read."""
    location, kind = settings.ssl_keystore_location, settings.ssl_keystore_type
    if settings.ssl_keystore_key is not None:
        _refuse_other_types(kind, "ssl.keystore.key", "ssl.keystore.type")
        if location is not None:
            _refuse("ssl.keystore.location", location, "ssl.keystore.key is given already")
        if settings.ssl_keystore_certificate_chain is None:
            raise MissingSetting(
                "ssl.keystore.certificate.chain", "ssl.keystore.key needs its certificates"
            )
        return KeyStore(
            key=private_key("ssl.keystore.key", settings.ssl_keystore_key),
            chain=certificates(
                "ssl.keystore.certificate.chain", settings.ssl_keystore_certificate_chain
            ),
            password=settings.ssl_key_password,
            setting="ssl.keystore.key",
            shown="[hidden]",
        )
    if location is None:
        raise MissingSetting(
            "ssl.keystore.location", "a listener of TLS needs a private key and its certificate"
        )
    data = _read("ssl.keystore.location", location, disk)
    if _stored_type(data, kind, "ssl.keystore", location) is StoreType.PEM:
        text = _text("ssl.keystore.location", location, data)
        return KeyStore(
            key=private_key("ssl.keystore.location", text, shown=location),
            chain=certificates("ssl.keystore.location", text, shown=location),
            password=settings.ssl_key_password,
            setting="ssl.keystore.location",
            shown=location,
        )
    password = settings.ssl_keystore_password
    try:
        key, chain = import_module("penstock.world.certificates").key_of_pkcs12(data, password)
    except ValueError as error:
        _refuse("ssl.keystore.location", location, _pkcs12_failure(error, "ssl.keystore.password"))
    return KeyStore(
        key=key, chain=chain, password=None, setting="ssl.keystore.location", shown=location
    )


def read_trust_store(settings: TlsSettings, disk: Disk) -> str | None:
    """The trusted certificates as PEM; None when none are given. InvalidSetting when they can't be
    read.
    """
    location, kind = settings.ssl_truststore_location, settings.ssl_truststore_type
    inline = settings.ssl_truststore_certificates
    if inline is not None:
        _refuse_other_types(kind, "ssl.truststore.certificates", "ssl.truststore.type")
        if location is not None:
            _refuse(
                "ssl.truststore.location", location, "ssl.truststore.certificates is given already"
            )
        return certificates("ssl.truststore.certificates", inline)
    if location is None:
        return None
    data = _read("ssl.truststore.location", location, disk)
    if _stored_type(data, kind, "ssl.truststore", location) is StoreType.PEM:
        text = _text("ssl.truststore.location", location, data)
        return certificates("ssl.truststore.location", text, shown=location)
    password = settings.ssl_truststore_password
    try:
        trusted = import_module("penstock.world.certificates").trusted_of_pkcs12(data, password)
    except ValueError as error:
        _refuse(
            "ssl.truststore.location", location, _pkcs12_failure(error, "ssl.truststore.password")
        )
    assert isinstance(trusted, str)
    return trusted


def private_key(name: str, text: str, *, shown: str = "[hidden]") -> str:
    """The one private key in a PEM text, laid out as OpenSSL wants it."""
    found = [block for kind, block in pem_blocks(text) if kind.endswith(PRIVATE_KEY)]
    if len(found) != 1:
        _refuse(name, shown, f"One private key in PEM is needed, and it has {len(found)}")
    return found[0]


def certificates(name: str, text: str, *, shown: str = "[hidden]") -> str:
    """All certificates of a PEM text."""
    found = [block for kind, block in pem_blocks(text) if kind == CERTIFICATE]
    if not found:
        _refuse(name, shown, "At least one certificate in PEM is needed, and it has none")
    return "".join(found)


def pem_blocks(text: str) -> list[tuple[str, str]]:
    """Kind and text of each block. In properties a block is often one line, with spaces or nothing
    where its lines ended, which Java reads and OpenSSL does not.
    """
    blocks = []
    for found in BLOCK.finditer(text.replace("\\n", "\n")):
        kind, body = found[1], found[2]
        if ":" not in body:  # headers, as those of a key that is encrypted in the old way, stay
            base64 = "".join(body.split())
            body = "\n" + "".join(
                f"{base64[start : start + BASE64_COLUMNS]}\n"
                for start in range(0, len(base64), BASE64_COLUMNS)
            )
        blocks.append((kind, f"-----BEGIN {kind}-----{body}-----END {kind}-----\n"))
    return blocks


def _stored_type(data: bytes, kind: StoreType, prefix: str, location: str) -> StoreType:
    if kind is StoreType.PEM:
        return kind
    if data.startswith(JKS_MAGIC):
        name = location.rpartition("/")[2]
        _refuse(
            f"{prefix}.location",
            location,
            "JKS files can't be read: convert it with `keytool -importkeystore -srckeystore"
            f" {name} -destkeystore {name}.p12 -deststoretype PKCS12` and set"
            f" {prefix}.type=PKCS12 and {prefix}.location",
        )
    if data[:1] != bytes([DER_SEQUENCE]):
        _refuse(
            f"{prefix}.location",
            location,
            f"It is no {kind} file: set {prefix}.type to PEM if it begins with -----BEGIN",
        )
    return StoreType.PKCS12


def _refuse_other_types(kind: StoreType, name: str, type_name: str) -> None:
    if kind is not StoreType.PEM:
        _refuse(type_name, str(kind), f"{name} is PEM: set {type_name}=PEM")


def _pkcs12_failure(error: ValueError, password_name: str) -> str:
    return f"This PKCS12 file can't be read ({error}): is {password_name} right?"


def _read(name: str, location: str, disk: Disk) -> bytes:
    try:
        return disk.read(location)
    except DiskError as error:
        _refuse(name, location, error.reason)


def _text(name: str, location: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        _refuse(name, location, "It is no PEM file: set the type to PKCS12 if it is one")


def _refuse(name: str, value: str, expected: str) -> NoReturn:
    raise InvalidSetting(name=name, value=value, expected=expected)
