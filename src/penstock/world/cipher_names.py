"""Cipher suites by the names that Java and IANA use, for OpenSSL, which has names of its own.

    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256          ECDHE-RSA-AES128-GCM-SHA256
    TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256    ECDHE-RSA-CHACHA20-POLY1305
    TLS_AES_256_GCM_SHA384                         of TLS 1.3, where names are the same

Python can't choose among the suites of TLS 1.3; a list without any of them turns TLS 1.3 off.
"""

from penstock.model.lazy_dataclass import dataclass

NEWEST = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CipherChoice:
    older: tuple[str, ...]  # of TLS 1.2, by OpenSSL's names
    has_newest: bool  # whether there is one of TLS 1.3


def cipher_choice(suites: tuple[str, ...]) -> CipherChoice:
    return CipherChoice(
        older=tuple(openssl_name(suite) for suite in suites if suite not in NEWEST),
        has_newest=any(suite in NEWEST for suite in suites),
    )


def openssl_name(suite: str) -> str:
    """A name that is OpenSSL's already stays as it is."""
    if not suite.startswith("TLS_"):
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_", "AES").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    parts = [cipher] if exchange == "RSA" else [exchange, cipher]
    return "-".join(parts).replace("_", "-")
