"""Users with their SCRAM credentials, while a node has started and knows no image yet: controllers
log in at each other before any of them knows what is committed.

Formatting has left the first users of a new cluster. A node that was started again has the changes
since then in its metadata log: a password that was changed, or a user that was removed, must not
count again. What the log has may turn out not to be committed; that is as good as can be known.
"""

from collections.abc import Iterable, Iterator, Mapping

from penstock.log.partition_log import PartitionLog
from penstock.metadata.image.scram import ScramUser, credential_in, user_of
from penstock.metadata.records import LogRecord, decode_record
from penstock.model.offset import Offset
from penstock.records.iterate import records_of
from penstock.security.sasl.scram_credential import ScramCredential
from penstock.wire.messages.metadata_records.user_scram_credential import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

Credentials = Mapping[ScramUser, ScramCredential]


class JournalledUsers:
    """`first_records` are those of a new cluster; `log` is that of the metadata, whole."""

    def __init__(self, log: PartitionLog, first_records: Iterable[LogRecord]) -> None:
        self._log = log
        self._first = _changed({}, first_records)
        self._end_offset: Offset | None = None  # of the log, when it was read
        self._found: Credentials = self._first

    def current(self) -> Credentials:
        """The log is read when it is asked for, and again when it has another end."""
        if self._log.end_offset != self._end_offset:
            self._end_offset = self._log.end_offset
            self._found = _changed(self._first, self._journalled())
        return self._found

    def _journalled(self) -> Iterator[LogRecord]:
        for batch in self._log.batches_from(self._log.start_offset):
            if not batch.is_control:
                for record in records_of(batch):
                    yield decode_record(bytes(record.value or b""))


def _changed(before: Credentials, records: Iterable[LogRecord]) -> Credentials:
    found = dict(before)
    for record in records:
        if isinstance(record, UserScramCredentialRecord):
            found[user_of(record)] = credential_in(record)
        elif isinstance(record, RemoveUserScramCredentialRecord):
            found.pop(user_of(record), None)
    return found
