"""Requests to the group coordinator, and how parked requests are answered later."""

from typing import Generic, TypeVar

from penstock.model.error import ErrorCode
from penstock.model.lazy_dataclass import dataclass

Request = TypeVar("Request", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[Request]):
    """One request, with what a decision may need to know about its sender."""

    request: Request
    version: int  # of the request: some rules depend on it
    ticket: int  # by which a parked answer is delivered
    client_id: str
    client_host: str  # with a slash before it, as Kafka shows it


@dataclass(frozen=True, slots=True)
class Parked:
    """In place of a reply: a Deliver with the same ticket brings the reply later."""


PARKED = Parked()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """An effect: answers a parked request. It does nothing when the client has disconnected."""

    ticket: int
    reply: object


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStored:
    """The decision about a request could not be journalled; parked requests that wait for it get an
    error.
    """

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
