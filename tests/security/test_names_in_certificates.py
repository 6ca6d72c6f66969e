"""Names in certificates read as Java prints them."""

import contextlib
import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.distinguished_name import MalformedCertificate, subject_name

KEY = ec.generate_private_key(ec.SECP256R1())
START = datetime.datetime(2026, 1, 1)

# Names in DER, and what `X500Principal.getName()` of Java 21 makes of them.
JAVA = {
    "304a310b300906035504061302555331193017060355040a131053756e204d6963726f73797374656d733111300f06"
    "0355040b13084a617661536f6674310d300b0603550403130444756b65": (
        "CN=Duke,OU=JavaSoft,O=Sun Microsystems,C=US"
    ),
    "302a310a3008060355040a130178311c301a06035504030c13612c622b6322645c653c663e673b683d69236a": (
        r"CN=a\,b\+c\"d\\e\<f\>g\;h\=i\#j,O=x"
    ),
    "30323111300f06035504070c084dc3bc6e6368656e310d300b060355040a130420737020310e300c06035504030c05"
    "236c656164": r"CN=\#lead,O=\ sp\ ,L=München",
    "3056310a3008060355042a130167310b3009060355040c13024472310b3009060355040513023737310c300a060355"
    "04051303313233310a300806035504031301783114301206092a864886f70d01090116056140622e63": (
        "1.2.840.113549.1.9.1=#16056140622e63,CN=x,2.5.4.5=#1303313233,2.5.4.5=#13023737,"
        "2.5.4.12=#13024472,2.5.4.42=#130167"
    ),
    "3067310a30080603550408130171310a300806035504091301733111300f060a0992268993f22c6401011301753111"
    "300f060a0992268993f22c6401191601623111300f060a0992268993f22c6401191601613114300806035504031301"
    "783008060355040b130179": "CN=x+OU=y,DC=a,DC=b,UID=u,STREET=s,ST=q",
    "301f311d301b06035504030c14612f623a6327642865292ac3a9e282acf09d849e": "CN=a/b:c'd(e)*é€𝄞",
    "300f310d300b0603550403130461202062": "CN=a  b",
}


def element(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 0x80 else b"\x82" + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


def with_subject(name: bytes) -> bytes:
    """As much of a certificate as there is up to its subject, and a little more."""
    version = element(0xA0, element(2, b"\x02"))
    before = element(2, b"\x07") + element(0x30, b"") + element(0x30, b"") + element(0x30, b"")
    return element(0x30, element(0x30, version + before + name + element(0x30, b"")))


@pytest.mark.parametrize(("name", "printed"), JAVA.items())
def test_a_name_reads_as_java_prints_it(name: str, printed: str) -> None:
    assert subject_name(with_subject(bytes.fromhex(name))) == printed


@pytest.fixture(scope="module")
def real() -> bytes:
    name = x509.Name.from_rfc4514_string("CN=orders,OU=Shop,C=DE")
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name.from_rfc4514_string("CN=authority"))
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(START)
        .not_valid_after(START + datetime.timedelta(days=1))
        .sign(KEY, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.DER)


def test_the_name_of_a_real_certificate_is_its_subject_and_not_its_issuer(real: bytes) -> None:
    assert subject_name(real) == "CN=orders,OU=Shop,C=DE"


@given(st.data())
def test_a_damaged_certificate_has_a_name_or_is_malformed(real: bytes, data: st.DataObject) -> None:
    damaged = bytearray(real[: data.draw(st.integers(0, len(real)))])
    for _ in range(data.draw(st.integers(0, 4))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(MalformedCertificate):
        assert isinstance(subject_name(bytes(damaged)), str)
