"""Who is not let in by `SecuredNode`, and at which listener: for each client to be refused."""

import ssl
from dataclasses import replace

from rig.logins.login import Login
from rig.logins.secured import Credentials

UNENCRYPTED = "SASL_PLAINTEXT"


def strangers(credentials: Credentials) -> dict[str, tuple[str, Login]]:
    """By a few words on each."""
    by_sasl, certified = credentials.by_sasl, credentials.by_certificate()
    expired = credentials.tokens.token("expired", seconds=-600)
    other = credentials.tokens.token("other", audience="somebody-else")
    foreign, old = credentials.foreign, credentials.files.expired_client("old")
    return {
        "wrong password, PLAIN": ("SASL_SSL", replace(by_sasl("PLAIN"), password="wrong-secret")),
        "wrong password, SCRAM": (
            "SASL_SSL",
            replace(by_sasl("SCRAM-SHA-512"), password="wrong-secret"),
        ),
        "unknown user, PLAIN": ("SASL_SSL", replace(by_sasl("PLAIN"), user="eve")),
        "unknown user, SCRAM": ("SASL_SSL", replace(by_sasl("SCRAM-SHA-256"), user="eve")),
        "expired token": ("SASL_SSL", replace(by_sasl("OAUTHBEARER"), token=expired)),
        "wrong audience": ("SASL_SSL", replace(by_sasl("OAUTHBEARER"), token=other)),
        "unknown mechanism": ("SASL_SSL", replace(by_sasl("PLAIN"), mechanism="SCRAM-SHA-1")),
        "mechanism that is off": ("NARROW", by_sasl("SCRAM-SHA-256")),
        "foreign certificate": ("SSL", replace(certified, certificate=foreign.client("mallory"))),
        "expired certificate": ("SSL", replace(certified, certificate=old)),
        "no certificate": ("SSL", replace(certified, certificate=None)),
        "log-in, no certificate": ("BOTH", by_sasl("SCRAM-SHA-512")),
        "log-in, foreign certificate": (
            "BOTH",
            replace(by_sasl("SCRAM-SHA-512"), certificate=foreign.client("mallory")),
        ),
        "certificate, wrong password, PLAIN": (
            "BOTH",
            replace(credentials.by_both("PLAIN"), password="wrong-secret"),
        ),
        "certificate, wrong password, SCRAM": (
            "BOTH",
            replace(credentials.by_both("SCRAM-SHA-512"), password="wrong-secret"),
        ),
        "certificate, no log-in": ("BOTH", certified),
        "node that is not trusted": ("SSL", replace(certified, trusted=foreign.trusted)),
        "plain text": ("SASL_SSL", Login(protocol="PLAINTEXT")),
        "password in plain text": ("SASL_SSL", replace(by_sasl("PLAIN"), protocol=UNENCRYPTED)),
        "no log-in": ("SASL_SSL", replace(certified, certificate=None)),
        "TLS 1.1": ("SSL", replace(certified, tls_version=ssl.TLSVersion.TLSv1_1)),
    }
