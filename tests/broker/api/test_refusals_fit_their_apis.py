"""Every API can refuse a whole request, in each of its versions, so that the client sees the code.

The cases are the table of APIs: a new API is tested by being in it.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator

import pytest

from penstock.broker import api as modules_of_apis
from penstock.broker.network.api_registry import SERVED
from penstock.broker.network.controller_apis import SERVED_BY_CONTROLLERS
from penstock.broker.network.dispatch import is_served
from penstock.broker.request.api_table import AnyApi
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.codec import decode_exact, encode
from penstock.wire.definition import Message, Struct
from rig.requests_of_apis import bare_request, full_request

CODE = ErrorCode.NOT_CONTROLLER
# The replies hold error codes of directories alone, and a request names none: Apache Kafka's client
# is not told either.
WITHOUT_A_PLACE_FOR_IT = {(ApiKey.DESCRIBE_LOG_DIRS, 1), (ApiKey.DESCRIBE_LOG_DIRS, 2)}
TABLES = (*SERVED, *(api for api in SERVED_BY_CONTROLLERS if api not in SERVED))
EACH_VERSION = [
    pytest.param(api, version, id=f"{api.request.__name__}-{version}")
    for api in TABLES
    for version in range(api.versions.min, api.versions.max + 1)
    if is_served(api, version)
]


def refused(api: AnyApi, version: int, make: Callable[[type[Message], int], Message]) -> Message:
    """The refusal as a client of this version reads it."""
    sent = memoryview(encode(make(api.request, version), version))
    reply = api.refuse(decode_exact(api.request, version, sent), CODE, "elsewhere")
    return decode_exact(type(reply), version, memoryview(encode(reply, version)))


def codes(part: object) -> Iterator[object]:
    """Every error code in a reply."""
    if isinstance(part, Struct):
        for field in part.FIELDS:
            value = getattr(part, field.name)
            if field.name.endswith("error_code"):
                yield value
            yield from codes(value)
    elif isinstance(part, list):
        for item in part:
            yield from codes(item)


@pytest.mark.parametrize(("api", "version"), EACH_VERSION)
def test_a_client_finds_the_code_in_the_refusal(api: AnyApi, version: int) -> None:
    found = set(codes(refused(api, version, full_request)))
    assert (CODE in found) != ((api.key, version) in WITHOUT_A_PLACE_FOR_IT)
    assert found <= {CODE, ErrorCode.NONE}


@pytest.mark.parametrize(("api", "version"), EACH_VERSION)
def test_a_request_that_names_nothing_can_be_refused(api: AnyApi, version: int) -> None:
    assert isinstance(refused(api, version, bare_request), Message)


def test_every_module_of_an_api_is_in_the_table() -> None:
    found = {
        module.name: importlib.import_module(f"{modules_of_apis.__name__}.{module.name}").API
        for module in pkgutil.iter_modules(modules_of_apis.__path__)
    }
    missing = [name for name, api in found.items() if api not in TABLES]
    assert not missing, f"add them to SERVED, or to SERVED_BY_CONTROLLERS: {missing}"
    assert len(found) == len(TABLES)
