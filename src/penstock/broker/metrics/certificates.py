"""When the certificates of this node's listeners of TLS end to be valid.

Loaded by a node that has such listeners and tells metrics. A file is read again only when it has
changed; one that cannot be read leaves what was known, as the listener goes on with it.
"""

from collections.abc import Mapping

from penstock.metrics.family import Source, Steps, gauge
from penstock.model.error import PenstockError
from penstock.model.settings.tls import TlsSettings
from penstock.world.certificates import expiry
from penstock.world.key_store import read_key_store
from penstock.world.ports import Disk

EXPIRY = gauge(
    "penstock_certificate_expiry_timestamp_seconds",
    "When the certificate of a listener ends to be valid, in seconds since 1970.",
    "listener",
)


class Certificates:
    """`settings` are those of each listener with TLS."""

    def __init__(self, settings: Mapping[str, TlsSettings], disk: Disk) -> None:
        self._settings = settings
        self._disk = disk
        self._known: dict[str, tuple[str, float]] = {}  # signature and expiry, by listener

    @property
    def source(self) -> Source:
        return Source((EXPIRY,), self._samples)

    def _samples(self) -> Steps:
        for listener, settings in self._settings.items():
            self._look(listener, settings)
            known = self._known.get(listener)
            if known is not None:
                yield EXPIRY.sample(known[1], listener)

    def _look(self, listener: str, settings: TlsSettings) -> None:
        known = self._known.get(listener)
        path = settings.ssl_keystore_location
        try:
            signature = "" if path is None else self._disk.signature(path)
            if known is None or known[0] != signature:
                chain = read_key_store(settings, self._disk).chain
                self._known[listener] = (signature, expiry(chain).timestamp())
        except (PenstockError, ValueError):
            return
