"""What the outside does to us: the errors that ports raise."""

from penstock.model.error import PenstockError


class DiskError(PenstockError):
    """A file operation failed. `full` tells that room was what lacked: space, or descriptors."""

    def __init__(self, path: str, reason: str, *, full: bool = False) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
        self.full = full


class NetworkError(PenstockError):
    """A connection could not be made, or was lost."""


class ConnectionRefused(NetworkError):
    """The machine is up and says that nobody listens there: the process is not running."""


class HandshakeFailed(NetworkError):
    """No secure connection came about; `reason` says why, without the peer's address."""

    def __init__(self, peer: object, reason: str) -> None:
        super().__init__(f"{peer}: {reason}")
        self.reason = reason


class OffloadError(PenstockError):
    """Whoever did long work for us is gone, and the work with it."""
