"""The start file: what lets the next start of a broker tell that a kill has lost nothing.

    penstock-start, text:
        {"version":1,"directoryId":"<base64>","bootId":"<text>","brokerEpoch":17,
         "signature":"<text>"}

A clean stop leaves a marker. A killed process leaves none, but what it wrote is in the page cache
as long as the machine runs, so nothing is lost either. The file says so of one log directory: it
was written by the broker with this epoch, since this start of the machine. The signature is that of
meta.properties (`Disk.signature`): a directory that was restored from a copy, and so may be older
than what the broker wrote, has another one.

Invariants:
 1. It is written when the broker knows its epoch, and before it writes records in that epoch.
 2. It is removed before a failed write or sync is acted on, and before recovery removes anything
    but an incomplete batch at the very end of a log: from then on it would not be true.
 3. Once removed, it is not written again in the same broker epoch, unless the controller has been
    told of the loss since. Recovery comes before the first one: what it removes is no part of what
    the broker has in its new epoch.

It is not synced: a power loss ends the boot of which it speaks. A device that is detached and
attached again while the machine runs is not noticed, nor is one that is set back to a snapshot.
"""

import json

from penstock.log import layout
from penstock.model.identity import id_bytes, id_text
from penstock.model.lazy_dataclass import dataclass
from penstock.world.ports import Disk

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Who wrote to a directory, and when."""

    directory_id: bytes
    boot_id: str  # of the machine
    broker_epoch: int
    signature: str  # of the directory


class StartFile:
    """That of one log directory; see the module's invariants."""

    def __init__(self, *, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = f"{path}/{layout.START}"
        self._is_void = False
        self._may_be_written = True
        self.found = decode_start(disk.read(self._path)) if disk.exists(self._path) else None

    @property
    def path(self) -> str:
        return self._path

    def epoch_of(self, *, directory_id: bytes, boot_id: str, signature: str) -> int | None:
        """The epoch of the broker that wrote here last, if the machine runs since then and nothing
        has gone wrong.
        """
        found = self.found
        if found is None or self._is_void or not boot_id:
            return None
        if (found.directory_id, found.boot_id) != (directory_id, boot_id):
            return None
        if found.signature != signature:
            return None
        return found.broker_epoch

    def write(self, start: Start) -> None:
        """Replaces the file at once. It stays away after a failure: invariant 3."""
        if not self._may_be_written or not start.boot_id:
            return
        temporary = self._path + layout.TEMPORARY
        file = self._disk.open(temporary, create=True)
        try:
            file.truncate(0)
            file.append([encode_start(start)])
        finally:
            file.close()
        self._disk.rename(temporary, self._path)

    def remove(self) -> None:
        """What this process has written may be lost. DiskError: the file is still there."""
        self._may_be_written = False
        self._is_void = True
        self._disk.remove(self._path)

    def forget(self) -> None:
        """What the last process has written is not all here. DiskError as above."""
        self._is_void = True
        self._disk.remove(self._path)


def encode_start(start: Start) -> bytes:
    fields = {
        "version": VERSION,
        "directoryId": id_text(start.directory_id),
        "bootId": start.boot_id,
        "brokerEpoch": start.broker_epoch,
        "signature": start.signature,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_start(data: bytes) -> Start | None:
    """What a file says; None when it is torn or of another version."""
    try:
        fields = json.loads(data)
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        return None
    directory, boot_id = fields.get("directoryId"), fields.get("bootId")
    broker_epoch, signature = fields.get("brokerEpoch"), fields.get("signature")
    if not (isinstance(directory, str) and isinstance(boot_id, str)):
        return None
    if not (isinstance(broker_epoch, int) and isinstance(signature, str)):
        return None
    try:
        return Start(
            directory_id=id_bytes(directory),
            boot_id=boot_id,
            broker_epoch=broker_epoch,
            signature=signature,
        )
    except ValueError:
        return None
