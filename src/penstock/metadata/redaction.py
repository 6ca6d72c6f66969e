"""Records of metadata as people may see them: without what a password could be found from, and
without values of settings that may be passwords.

Of a delegation token the log has nothing that is secret: see its record.
"""

from penstock.metadata.records import LogRecord
from penstock.model.configs import ResourceKind
from penstock.model.settings.broker import BROKER_SETTINGS
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.user_scram_credential import (
    UserScramCredentialRecord,
)

HIDDEN = "[hidden]"


def redacted(record: LogRecord) -> LogRecord:
    """The record, or one like it in which secrets are replaced."""
    if isinstance(record, UserScramCredentialRecord):
        hidden = HIDDEN.encode()
        return UserScramCredentialRecord(
            name=record.name,
            mechanism=record.mechanism,
            salt=hidden,
            stored_key=hidden,
            server_key=hidden,
            iterations=record.iterations,
        )
    if isinstance(record, ConfigRecord) and record.value is not None and _may_be_secret(record):
        return ConfigRecord(
            resource_type=record.resource_type,
            resource_name=record.resource_name,
            name=record.name,
            value=HIDDEN,
        )
    return record


def _may_be_secret(record: ConfigRecord) -> bool:
    """A broker's setting that is unknown may be one of Apache Kafka's for a single listener."""
    if record.resource_type != ResourceKind.BROKER:
        return False
    setting = BROKER_SETTINGS.get(record.name)
    return setting is None or setting.sensitive
