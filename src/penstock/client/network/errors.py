"""What can go wrong for a client, each with the values needed to understand it."""

from penstock.model.error import ErrorCode, PenstockError


class ClientError(PenstockError):
    """The root of what a client raises."""


class Unreachable(ClientError):
    """No broker could be reached at any of the addresses tried."""


class ConnectionLost(ClientError):
    """The connection ended before the answer came; what was asked may or may not have happened."""


class BrokenProtocol(ClientError):
    """A peer answered with what no broker would send: bytes that do not decode, or in the wrong
    order.
    """


class UnsupportedByBroker(ClientError):
    """The broker speaks no version of an API that this client speaks too."""


class TimedOut(ClientError):
    """No answer came in time; what was asked may or may not have happened."""


class BufferFull(ClientError):
    """The producer's buffer had no room for a record within the time it may block."""


class Refused(ClientError):
    """A broker's answer was an error. `about` names what it concerns: a topic, a partition, a
    resource.
    """

    def __init__(self, code: ErrorCode, about: str, message: str | None = None) -> None:
        said = message or SENTENCES.get(code, code.name)
        super().__init__(f"{about}: {said}" if about else said)
        self.code = code
        self.about = about
        self.message = message


class AuthenticationFailed(ClientError):
    """The broker did not accept who this client says it is, or is itself not to be trusted. Another
    try would end the same way.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class WrongStage(ClientError):
    """A producer was asked for what its transaction does not allow now."""


class AbortOnly(ClientError):
    """Something of a transaction was lost: all that can be done is to abort it. Then the next one
    may begin. The reason is the cause of this error.
    """

    def __init__(self, transactional_id: str, reason: ClientError) -> None:
        super().__init__(
            f"transactional id {transactional_id}: the transaction can only be aborted: {reason}"
        )
        self.reason = reason
        self.__cause__ = reason


class Fenced(ClientError):
    """Another producer has taken over the transactional id, or the transaction has timed out: this
    one can do nothing more. `in_doubt` when it can't be told whether the last commit took place.
    """

    def __init__(self, transactional_id: str, *, in_doubt: bool = False) -> None:
        doubt = "; whether its transaction was committed is not known" if in_doubt else ""
        super().__init__(
            f"transactional id {transactional_id}: another producer has taken it over, or the"
            f" transaction took longer than its time-out{doubt}"
        )
        self.transactional_id = transactional_id
        self.in_doubt = in_doubt


class CommitInDoubt(TimedOut):
    """Nobody answered whether a transaction was committed. Ask for the same commit again."""


# What people meet most; brokers often send no words of their own along.
SENTENCES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "no topic can have this name",
    ErrorCode.TOPIC_ALREADY_EXISTS: "there is such a topic already",
    ErrorCode.UNKNOWN_TOPIC_ID: "there is no topic of this id",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the log does not have this offset",
    ErrorCode.MESSAGE_TOO_LARGE: "a batch is larger than the topic allows",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker cannot use the disk that this is on",
    ErrorCode.REQUEST_TIMED_OUT: "the broker could not do it in time",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than the topic wants",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.INVALID_GROUP_ID: "no group can have this name",
    ErrorCode.NON_EMPTY_GROUP: "the group is active: stop its members first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "a member of the group is subscribed to this topic",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group is active, or does not know this member any more",
    ErrorCode.ILLEGAL_GENERATION: "the group has been rebalanced since",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is being rebalanced",
    ErrorCode.FENCED_INSTANCE_ID: "another consumer has joined with the same instance id",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as it may have",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "the transaction time-out is longer than the broker"
    " allows (transaction.max.timeout.ms), or not positive",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "this transactional id may not be used",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "there is no such transactional id",
    ErrorCode.INVALID_TXN_STATE: "there is no open transaction that could be ended like this",
    ErrorCode.CONCURRENT_TRANSACTIONS: "the transaction before it is still being completed",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "a transaction with an offset of it is still open",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "no broker looks after it at present",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the broker that looks after it is still loading",
}

# Errors after which the same request may succeed, at once or once the metadata has been read again.
RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)

# Those of them that say: what you know of the cluster is old.
STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
assert STALE_METADATA <= RETRIABLE


def error_code(number: int) -> ErrorCode:
    """The code by its number; a newer broker's unknown code is an unknown server error."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
