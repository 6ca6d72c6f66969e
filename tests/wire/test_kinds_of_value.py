"""Every kind of value travels, plain and flexible, present and null."""

import pytest

from penstock.wire.codec import decode_exact, encode
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    boolean,
    embedded,
    float64,
    int8,
    int16,
    int32,
    int64,
    nullable,
    nullable_struct,
    octets,
    string,
    tagged,
    tagged_struct,
    uint16,
    uuid,
)


class Inner(Struct):
    number: int = int32(default=-1)
    text: str = string()


class Everything(Message, versions="0-1", flexible_from=1):
    flag: bool = boolean()
    tiny: int = int8()
    short: int = int16()
    port: int = uint16()
    number: int = int32()
    large: int = int64()
    ratio: float = float64()
    identity: bytes = uuid()
    text: str = string()
    data: bytes = octets()
    inner: Inner = embedded(Inner)
    perhaps: Inner | None = nullable_struct(Inner)
    texts: list[str] = array(string())
    perhaps_texts: list[str | None] = array(nullable(string()))
    blobs: list[bytes] = array(octets())
    flags: list[bool] = array(boolean())
    identities: list[bytes] = array(uuid())
    inners: list[Inner] | None = nullable(array(Inner))
    tagged_data: bytes = tagged(0, octets("1+"))
    tagged_ports: list[int] | None = tagged(200, nullable(array(uint16(), "1+"), default=None))
    tagged_inner: Inner | None = tagged_struct(3, Inner, "1+")


LOW = Everything(tiny=-128, short=-(2**15), number=-(2**31), large=-(2**63), ratio=-1.5)
HIGH = Everything(tiny=127, short=2**15 - 1, port=2**16 - 1, number=2**31 - 1, large=2**63 - 1)
FULL = Everything(
    flag=True,
    identity=b"0123456789abcdef",
    text="größe",
    data=b"\x00" * 300,
    inner=Inner(number=7, text="seven"),
    perhaps=Inner(text="eight"),
    texts=["", "a" * 200, "ü"],
    perhaps_texts=[None, "", "a"],
    blobs=[b"", b"a"],
    flags=[True, False],
    identities=[bytes(16), b"0123456789abcdef"],
    inners=[Inner(), Inner(number=1)],
)
NULLS = Everything(perhaps=None, inners=None)
MANY = Everything(texts=["a"] * 300, identities=[bytes(16)] * 300, inners=[Inner()] * 300)


@pytest.mark.parametrize("in_version", [0, 1])
@pytest.mark.parametrize(
    "original", [LOW, HIGH, FULL, NULLS, MANY], ids=["low", "high", "full", "nulls", "many"]
)
def test_value_survives_the_wire(original: Everything, in_version: int) -> None:
    data = memoryview(encode(original, in_version))
    assert decode_exact(Everything, in_version, data) == original


def test_tagged_values_survive_the_wire_in_the_order_of_their_tags() -> None:
    original = Everything(
        tagged_data=b"d" * 200, tagged_ports=[1, 65535], tagged_inner=Inner(number=5)
    )
    data = encode(original, 1)
    assert decode_exact(Everything, 1, memoryview(data)) == original
    assert data.endswith(b"\xc8\x01\x05\x03\x00\x01\xff\xff")


def test_tagged_values_do_not_travel_in_versions_without_tags() -> None:
    original = Everything(tagged_data=b"d", tagged_inner=Inner())
    assert encode(original, 0) == encode(Everything(), 0)
