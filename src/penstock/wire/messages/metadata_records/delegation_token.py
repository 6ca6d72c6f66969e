"""A delegation token. What a client logs in with is computed from its id and the cluster's secret,
and is in no record.
"""

from penstock.wire.definition import Message, array, int64, string


class DelegationTokenRecord(Message, key=10, versions="0", flexible_from=0):
    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(string())
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


class RemoveDelegationTokenRecord(Message, key=26, versions="0", flexible_from=0):
    token_id: str = string()
