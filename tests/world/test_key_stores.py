"""Key stores and trust stores, in the forms that settings allow."""

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from penstock.model.settings.setting import InvalidSetting, MissingSetting
from penstock.model.settings.tls import parse_tls
from penstock.world.cipher_names import openssl_name
from penstock.world.disk import RealDisk
from penstock.world.tls import client_context, server_context
from rig.tls_files import TlsFiles

PASSWORD = "let me in"
ENCRYPTED = serialization.BestAvailableEncryption(PASSWORD.encode())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    made = TlsFiles(tmp_path_factory.mktemp("authority"))
    made.node()
    return made


def text(files: TlsFiles, name: str) -> str:
    return (files.folder / name).read_text()


def key_of(files: TlsFiles) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(text(files, "node.key").encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def certificate(files: TlsFiles, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(text(files, name).encode())


def serves(settings: dict[str, str]) -> None:
    server_context(parse_tls(settings), RealDisk())


def refusal(settings: dict[str, str]) -> str:
    with pytest.raises(InvalidSetting) as refused:
        serves(settings)
    return str(refused.value)


def p12(files: TlsFiles, path: Path, password: str = PASSWORD) -> Path:
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"node",
            key_of(files),
            certificate(files, "node.crt"),
            [certificate(files, "ca.pem")],
            serialization.BestAvailableEncryption(password.encode()),
        )
    )
    return path


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_a_pkcs12_file_is_read_also_where_it_is_called_jks_as_in_java(
    files: TlsFiles, tmp_path: Path, kind: str
) -> None:
    serves(
        {
            "ssl.keystore.type": kind,
            "ssl.keystore.location": str(p12(files, tmp_path / "node.p12")),
            "ssl.keystore.password": PASSWORD,
        }
    )


def test_a_wrong_password_of_a_pkcs12_file_is_refused_without_naming_it(
    files: TlsFiles, tmp_path: Path
) -> None:
    said = refusal(
        {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(p12(files, tmp_path / "node.p12")),
            "ssl.keystore.password": "guessed",
        }
    )
    assert "is ssl.keystore.password right?" in said
    assert "guessed" not in said


def test_a_pkcs12_trust_store_is_read(files: TlsFiles, tmp_path: Path) -> None:
    path = tmp_path / "trust.p12"
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            None, None, None, [certificate(files, "ca.pem")], ENCRYPTED
        )
    )
    context = client_context(
        parse_tls(
            {
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.location": str(path),
                "ssl.truststore.password": PASSWORD,
            }
        ),
        RealDisk(),
    )
    assert context.cert_store_stats()["x509_ca"] == 1


def test_a_jks_file_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "server.jks"
    path.write_bytes(bytes.fromhex("feedfeed00000002"))
    said = refusal({"ssl.keystore.location": str(path), "ssl.keystore.password": "x"})
    assert "keytool -importkeystore -srckeystore server.jks -destkeystore server.jks.p12" in said
    assert "\n" not in said


def test_pem_in_settings_is_read_also_on_one_line(files: TlsFiles) -> None:
    serves(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": " ".join(text(files, "node.key").split("\n")),
            "ssl.keystore.certificate.chain": text(files, "node.crt").replace("\n", "\\n"),
        }
    )


@pytest.mark.parametrize("password", [PASSWORD, "wrong", None])
def test_an_encrypted_key_needs_its_password(
    files: TlsFiles, tmp_path: Path, password: str | None
) -> None:
    key = key_of(files).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, ENCRYPTED
    )
    path = tmp_path / "node.pem"
    path.write_text(key.decode() + text(files, "node.crt"))
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    if password is not None:
        settings["ssl.key.password"] = password
    if password == PASSWORD:
        serves(settings)
    else:
        said = refusal(settings)
        assert "ssl.key.password" in said
        assert "wrong" not in said


def test_a_key_of_another_certificate_is_refused(files: TlsFiles, tmp_path: Path) -> None:
    other = TlsFiles(tmp_path / "other")
    other.node()
    path = tmp_path / "mixed.pem"
    path.write_text(text(files, "node.key") + text(other, "node.crt"))
    said = refusal({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)})
    assert "key values mismatch" in said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "ssl.keystore.location"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/nowhere"}, "/nowhere"),
        ({"ssl.keystore.key": "x"}, "set ssl.keystore.type=PEM"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.key": "x"}, "certificate.chain"),
    ],
)
def test_what_is_missing_is_named(settings: dict[str, str], said: str) -> None:
    assert said in refusal(settings)


def test_client_certificates_need_authorities_to_be_trusted(files: TlsFiles) -> None:
    settings = {**files.node_settings(clients="required")}
    del settings["ssl.truststore.location"]
    with pytest.raises(MissingSetting, match=r"ssl\.truststore\.location"):
        serves(settings)


@pytest.mark.parametrize(
    ("iana", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("DHE-RSA-AES256-GCM-SHA384", "DHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_cipher_suites_are_known_by_the_names_of_java(iana: str, openssl: str) -> None:
    assert openssl_name(iana) == openssl


@pytest.mark.parametrize("suites", ["TLS_NO_WITH_SUCH", "TLS_AES_128_GCM_SHA256"])
def test_suites_that_leave_nothing_to_speak_are_refused(files: TlsFiles, suites: str) -> None:
    settings = {**files.node_settings(), "ssl.cipher.suites": suites}
    said = refusal({**settings, "ssl.enabled.protocols": "TLSv1.2"})
    assert "ssl.cipher.suites" in said
