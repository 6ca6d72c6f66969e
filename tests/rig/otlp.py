"""OpenTelemetry's MetricsData as bytes, written by hand: what real clients push, and what not."""

import struct


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def number_field(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number)


def field(number: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def attribute(key: str, value: str | int | bool | float) -> bytes:
    if isinstance(value, str):
        content = field(1, value)
    elif isinstance(value, bool):
        content = number_field(2, value)
    elif isinstance(value, int):
        content = number_field(3, value)
    else:
        content = varint(4 << 3 | 1) + struct.pack("<d", value)
    return field(1, key) + field(2, content)


def point(value: float, **attributes: str | int | bool | float) -> bytes:
    if isinstance(value, int):
        written = varint(6 << 3 | 1) + struct.pack("<q", value)
    else:
        written = varint(4 << 3 | 1) + struct.pack("<d", value)
    return written + b"".join(field(7, attribute(*one)) for one in attributes.items())


def gauge(name: str, *points: bytes) -> bytes:
    return field(1, name) + field(5, b"".join(field(1, one) for one in points))


def total(name: str, *points: bytes, is_increase: bool = False, monotonic: bool = True) -> bytes:
    body = b"".join(field(1, one) for one in points)
    body += number_field(2, 1 if is_increase else 2) + number_field(3, monotonic)
    return field(1, name) + field(7, body)


def metrics_data(*metrics: bytes, **resource: str) -> bytes:
    attributes = b"".join(field(1, attribute(*one)) for one in resource.items())
    scope = b"".join(field(2, one) for one in metrics)
    return field(1, field(2, scope) + field(1, attributes))
