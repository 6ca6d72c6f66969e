"""Authorities, keys and certificates in files, and the settings that name them."""

import copy
import datetime
from pathlib import Path

from penstock.world.certificates import Authority, Issued

DAYS = 30
HOSTS = ("localhost", "127.0.0.1")
A_YEAR = datetime.timedelta(days=365)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class TlsFiles:
    """An authority of its own in a folder of a test."""

    def __init__(self, folder: Path, *, days: int = DAYS, ago: datetime.timedelta | None = None):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        made = now() if ago is None else now() - ago
        self.authority = Authority(f"authority of {folder.name}", now=made, days=days)
        self.trusted = self._write("ca.pem", self.authority.certificate)

    @classmethod
    def expired(cls, folder: Path) -> "TlsFiles":
        return cls(folder, days=1, ago=A_YEAR)

    def node(self, name: str = "node", *, hosts: tuple[str, ...] = HOSTS) -> Path:
        """A file with a key and its certificate."""
        return self.write(name, self.authority.issue_node(name, hosts=hosts))

    def client(self, name: str = "client") -> Path:
        return self.write(name, self.authority.issue_client(name))

    def expired_client(self, name: str) -> Path:
        """A certificate that was good a year ago, of the authority that is good today."""
        past = copy.copy(self.authority)
        past._now, past._days = now() - A_YEAR, 1
        return self.write(name, past.issue_client(name))

    def write(self, name: str, issued: Issued) -> Path:
        # Apart too, as librdkafka and kafka-python want them.
        self._write(f"{name}.key", issued.key)
        self._write(f"{name}.crt", issued.certificate)
        return self._write(f"{name}.pem", issued.key + issued.certificate)

    def node_settings(self, *, clients: str = "none", name: str = "node") -> dict[str, str]:
        """What a listener of TLS needs, and a node that connects to others."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.node(name)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            "ssl.client.auth": clients,
        }

    def client_settings(self, name: str | None = None) -> dict[str, str]:
        """With a certificate of that name, or without one."""
        settings = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
        }
        if name is not None:
            settings["ssl.keystore.type"] = "PEM"
            settings["ssl.keystore.location"] = str(self.client(name))
        return settings

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path
