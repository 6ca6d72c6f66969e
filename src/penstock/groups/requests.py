"""What a coordinator is asked, and how an answer that has to wait leaves later."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.model.error import ErrorCode

Request = TypeVar("Request", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[Request]):
    """One request, with what a decision may need to know about who sent it."""

    request: Request
    version: int  # of the request: some rules depend on it
    ticket: int  # by which a parked answer is delivered
    client_id: str
    client_host: str  # with a slash before it, as Kafka shows it


@dataclass(frozen=True, slots=True)
class Parked:
    """In place of a reply: the answer leaves later, as a Deliver of the same ticket."""


PARKED = Parked()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """An effect: answers a parked request. Nothing happens when its client has gone."""

    ticket: int
    reply: object


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStored:
    """What a request decided could not be journalled; who waits on its account is to be told."""

    request: object
    code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConsumerGroup:
    """The part of ConsumerGroupDescribe that is about one group."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroup:
    """One group of a DescribeGroups."""

    group: str
