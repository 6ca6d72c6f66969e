"""What the outside does to us: the errors that ports raise."""

from penstock.model.error import PenstockError


class DiskError(PenstockError):
    """A file operation failed. `full` tells that room was what lacked: space, descriptors or
    memory; `gone` that the file has been closed or deleted.
    """

    def __init__(self, path: str, reason: str, *, full: bool = False, gone: bool = False) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
        self.full = full
        self.gone = gone


class NetworkError(PenstockError):
    """A connection could not be made, or was lost."""


class FileNotSent(NetworkError):
    """Nothing is wrong with the peer: the disk does not give the bytes that were to be sent."""

    def __init__(self, error: DiskError) -> None:
        super().__init__(str(error))
        self.path = error.path
        self.reason = error.reason
        self.full = error.full


class ConnectionRefused(NetworkError):
    """The machine is up and says that nobody listens there: the process is not running."""


class HandshakeFailed(NetworkError):
    """No secure connection came about; `reason` says why, without the peer's address."""

    def __init__(self, peer: object, reason: str) -> None:
        super().__init__(f"{peer}: {reason}")
        self.reason = reason


class OffloadError(PenstockError):
    """Whoever did long work for us is gone, and the work with it."""


def send_error(error: DiskError) -> NetworkError:
    """What ends a connection that a file was to be sent to. A file that is gone is no fault of the
    disk: a reply may outlive its partition.
    """
    return NetworkError(str(error)) if error.gone else FileNotSent(error)
