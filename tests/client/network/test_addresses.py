"""How people name brokers."""

import pytest

from penstock.client.network.bootstrap import BadAddress, parse_addresses
from penstock.world.ports import Address


def test_list_of_addresses_is_parsed() -> None:
    assert parse_addresses("a:1, [::1]:9092,") == (
        Address(host="a", port=1),
        Address(host="::1", port=9092),
    )


@pytest.mark.parametrize("text", ["", "host", ":9092", "host:", "host:x", "host:70000", "::1:9092"])
def test_what_names_no_broker_is_refused(text: str) -> None:
    with pytest.raises(BadAddress):
        parse_addresses(text)
