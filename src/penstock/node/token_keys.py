"""The keys of the issuer of bearer tokens: read at the start, again at intervals, and soon after a
token has named a key that is not known.

Until they have been read for the first time nobody can log in by a token; later, the last ones that
could be read count.
"""

import asyncio
import ipaddress
import logging
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from penstock.model.settings.sasl import SaslSettings
from penstock.security.sasl.json_web_token import (
    JWKS_BYTES_MAX,
    ExpectedClaims,
    TokenKeys,
    UnknownKey,
    UnusableKeys,
)
from penstock.security.sasl.oauthbearer import Bearer, InvalidToken, OauthBearerServer
from penstock.world.errors import DiskError, NetworkError
from penstock.world.ports import World
from penstock.world.web import read_address

logger = logging.getLogger(__name__)

BACKOFF_MS_MIN = 100
BACKOFF_MS_MAX = 10_000
# A token with an invented key must not make this node ask again and again.
INTERVAL_MS_MIN = 10_000
READ_TIMEOUT_MS = 20_000


class TokenKeySource:
    """A TokenVerifier. Keep `run` running."""

    def __init__(self, settings: SaslSettings, world: World, *, listener: str) -> None:
        assert settings.sasl_oauthbearer_jwks_endpoint_url is not None
        self._url = settings.sasl_oauthbearer_jwks_endpoint_url
        self._refresh_ms = settings.sasl_oauthbearer_jwks_endpoint_refresh_ms
        self._listener = listener
        self._world = world
        self._expected = ExpectedClaims(
            issuer=settings.sasl_oauthbearer_expected_issuer,
            audiences=settings.sasl_oauthbearer_expected_audience,
            user_claim=settings.sasl_oauthbearer_sub_claim_name,
            clock_skew_ms=settings.sasl_oauthbearer_clock_skew_seconds * 1000,
        )
        self._keys: TokenKeys | None = None
        self._wanted = asyncio.Event()

    def exchange(self) -> OauthBearerServer:
        return OauthBearerServer(self)

    def verify(self, token: str, *, now_ms: int) -> Bearer:
        if self._keys is None:
            self._wanted.set()
            raise InvalidToken("The keys of the issuer are not known yet")
        try:
            return self._keys.verify(token, now_ms=now_ms)
        except UnknownKey:
            self._wanted.set()
            raise

    async def run(self) -> None:
        if _can_be_forged(self._url):
            logger.warning(
                "keys of tokens come without TLS: whoever is between can forge any token "
                "listener=%s url=%s advice=%s",
                self._listener, _shown(self._url), "use https or a file",
            )  # fmt: skip
        failures = 0
        while True:
            self._wanted.clear()
            try:
                self._keys = TokenKeys(await self._read(), self._expected)
                failures = 0
            except (NetworkError, DiskError, UnusableKeys) as error:
                failures += 1
                logger.warning(
                    "keys of tokens not read listener=%s url=%s known=%s reason=%s",
                    self._listener, _shown(self._url), self._keys is not None, error,
                )  # fmt: skip
            await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        if failures:
            wait_ms = min(BACKOFF_MS_MIN * 2 ** min(failures, 10), BACKOFF_MS_MAX)
            await asyncio.sleep(wait_ms / 1000)
            return
        least_ms = min(INTERVAL_MS_MIN, self._refresh_ms)
        await asyncio.sleep(least_ms / 1000)
        try:
            async with asyncio.timeout((self._refresh_ms - least_ms) / 1000):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def _read(self) -> bytes:
        parts: Any = urlsplit(self._url)
        if parts.scheme == "file":
            file = self._world.disk.open(url2pathname(parts.path), writable=False)
            try:
                return file.read_at(0, JWKS_BYTES_MAX + 1)
            finally:
                file.close()
        return await read_address(
            self._url, bytes_max=JWKS_BYTES_MAX + 1, timeout_ms=READ_TIMEOUT_MS
        )


def _can_be_forged(url: str) -> bool:
    """Whether keys come by plain HTTP from another machine."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname == "localhost":
        return False
    try:
        return not ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:  # a name
        return True


def _shown(url: str) -> str:
    """Without what might be a secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
