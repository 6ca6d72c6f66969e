"""How a client gets in, in words that all of them understand; each module beside is one client."""

import json
import logging
import ssl
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from joserfc import jwt
from joserfc.jwk import RSAKey

from rig.sasl import PLAIN_MODULE, SCRAM_MODULE

# For a record or a refusal; a client that has neither by then hangs.
PATIENCE_SECONDS = 60
# For clients that try again and again where they are not told why a connection ended.
GIVE_UP_SECONDS = 2
ISSUER, AUDIENCE = "https://issuer", "penstock"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """`certificate` is a file with a key and its certificate; the same apart stand beside it."""

    protocol: str
    trusted: Path | None = None
    mechanism: str | None = None
    user: str = "alice"
    password: str = "alice-secret"
    token: Path | None = None
    certificate: Path | None = None
    tls_version: ssl.TLSVersion | None = None  # the newest to speak; not for librdkafka and Java
    by_delegation_token: bool = False  # user and password are its id and its HMAC

    def java_settings(self) -> dict[str, str]:
        """Also those of our own client, and of Spark's connector behind `kafka.`."""
        settings = {"security.protocol": self.protocol}
        if self.trusted is not None:
            settings["ssl.truststore.type"] = "PEM"
            settings["ssl.truststore.location"] = str(self.trusted)
        if self.certificate is not None:
            settings["ssl.keystore.type"] = "PEM"
            settings["ssl.keystore.location"] = str(self.certificate)
        if self.mechanism is not None:
            settings["sasl.mechanism"] = self.mechanism
            settings["sasl.jaas.config"] = self._jaas()
        if self.token is not None:
            settings["sasl.oauthbearer.token.endpoint.url"] = self.token.as_uri()
            settings["sasl.login.callback.handler.class"] = (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            )
        return settings

    def write(self, file: Path) -> Path:
        """The file, with the settings that `--command-config` and Spark's `configFile` read."""
        lines = [f"{name}={value}\n" for name, value in self.java_settings().items()]
        file.write_text("".join(lines))
        return file

    def _jaas(self) -> str:
        if self.mechanism == "OAUTHBEARER":
            return f"{OAUTH_MODULE} required;"
        module = PLAIN_MODULE if self.mechanism == "PLAIN" else SCRAM_MODULE
        more = ' tokenauth="true"' if self.by_delegation_token else ""
        return f'{module} required username="{self.user}" password="{self.password}"{more};'


def older_tls(login: Login) -> ssl.SSLContext:
    """A context that speaks the login's version of TLS, which OpenSSL would not by itself."""
    assert login.tls_version is not None
    context = ssl.create_default_context(cafile=login.trusted)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = login.tls_version
    return context


class Entering(Protocol):
    def round_trip(self, bootstrap: str, login: Login, topic: str) -> None:
        """Writes a record, and reads it as a member of a group."""

    def refusal(self, bootstrap: str, login: Login) -> str:
        """What a producer is told: the error that it raises, and what it logs before."""


class Heard(logging.Handler):
    """What a library logs while this is open. Some give the reason there alone."""

    def __init__(self, library: str) -> None:
        super().__init__(logging.WARNING)
        self._logger = logging.getLogger(library)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())

    def __enter__(self) -> "Heard":
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)

    def with_error(self, error: Exception) -> str:
        return "\n".join([f"{type(error).__name__}: {error}", *self._lines])


class TokenIssuer:
    """A key, the file of keys that a node reads, and tokens signed with the key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
        self.keys = folder / "jwks.json"
        listed = [self._key.as_dict(private=False)]
        self.keys.write_text(json.dumps({"keys": listed}))

    def token(self, name: str, *, seconds: int = 300, audience: str = AUDIENCE) -> Path:
        """A file with a token of alice that is valid for so long from now on."""
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": audience,
            "sub": "alice",
            "iat": now + min(0, seconds) - 300,
            "exp": now + seconds,
        }
        file = self._folder / name
        file.write_text(jwt.encode({"alg": "RS256", "kid": "one"}, claims, self._key))
        return file

    def node_settings(self) -> dict[str, str]:
        return {
            "sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }
