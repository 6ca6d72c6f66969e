"""Certificates by the library `cryptography`, which stands behind this module alone (ADR 42).

PKCS12 files are read here, and private authorities are made for trying out (`penstock security
init`). Loaded when one of the two is needed.
"""

import datetime
import ipaddress
from collections.abc import Iterable, Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.model.lazy_dataclass import dataclass

PEM = serialization.Encoding.PEM
# Clocks of machines differ: a certificate that was just made must be valid on all of them.
EARLIER = datetime.timedelta(minutes=10)


def key_of_pkcs12(data: bytes, password: str | None) -> tuple[str, str]:
    """Private key and certificates, the own one first, as PEM. ValueError when there are none."""
    key, own, others = pkcs12.load_key_and_certificates(data, _encoded(password))
    if key is None or own is None:
        raise ValueError("it has no private key with a certificate")
    text = key.private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return text, _pem(_chain(own, others))


def trusted_of_pkcs12(data: bytes, password: str | None) -> str:
    """All certificates as PEM. ValueError when there are none."""
    _, own, others = pkcs12.load_key_and_certificates(data, _encoded(password))
    found = [*([] if own is None else [own]), *others]
    if not found:
        raise ValueError("it has no certificates")
    return _pem(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A private key with its certificate, as PEM."""

    key: str
    certificate: str

    def __repr__(self) -> str:
        return "Issued(...)"  # nothing of a key goes to a log


class Authority:
    """A private authority: whoever trusts it trusts what it issues."""

    def __init__(self, name: str, *, now: datetime.datetime, days: int) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._now = now
        self._days = days
        self._name = _name(name)
        builder = self._builder(self._name, self._key.public_key())
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True,
            content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        signed = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = _pem([signed])

    @property
    def key(self) -> str:
        return _key_pem(self._key)

    def issue_node(self, name: str, *, hosts: Sequence[str]) -> Issued:
        """For a node, which serves at these hosts, and is a client of other nodes."""
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(name, uses, hosts)

    def issue_client(self, name: str) -> Issued:
        return self._issue(name, [ExtendedKeyUsageOID.CLIENT_AUTH], ())

    def _issue(self, name: str, uses: list[x509.ObjectIdentifier], hosts: Sequence[str]) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(name), key.public_key()).add_extension(
            x509.ExtendedKeyUsage(uses), critical=False
        )
        if hosts:
            names = [_alternative(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        constraints = x509.BasicConstraints(ca=False, path_length=None)
        signed = builder.add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())
        return Issued(key=_key_pem(key), certificate=_pem([signed]))

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - EARLIER)
            .not_valid_after(self._now + datetime.timedelta(days=self._days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(authority, critical=False)
        )


def expiry(chain: str) -> datetime.datetime:
    """When the first of some certificates in PEM ends to be valid."""
    return x509.load_pem_x509_certificates(chain.encode())[0].not_valid_after_utc


def _chain(own: x509.Certificate, others: Iterable[x509.Certificate]) -> list[x509.Certificate]:
    """Each one followed by the one that signed it: a PKCS12 file has them in any order."""
    chain, left = [own], list(others)
    while left:
        above = next((one for one in left if _signed(one, chain[-1])), None)
        if above is None:
            break
        left.remove(above)
        chain.append(above)
    return chain


def _signed(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _pem(certificates: Iterable[x509.Certificate]) -> str:
    return "".join(one.public_bytes(PEM).decode() for one in certificates)


def _encoded(password: str | None) -> bytes | None:
    return None if password is None else password.encode()
