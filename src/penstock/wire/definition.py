"""The form in which messages are declared: typed classes whose fields say how they travel.

    class TopicProduceData(Struct):
        name: str = string("0-12")
        topic_id: bytes = uuid("13+")
        partition_data: list[PartitionProduceData] = array(PartitionProduceData)

    class ProduceRequest(Message, key=ApiKey.PRODUCE, versions="0-13", flexible_from=9):
        transactional_id: str | None = nullable(string("3+"), default=None)
        ...

One class serves all versions. The versions of a field are written as Kafka writes them: "3+",
"0-12", "0"; a field without them is in every version. In a version that lacks a field, readers give
it its default and writers pass over it. An instance has slots, a constructor with keywords that all
have defaults, equality and a readable form, no more. Declaring compiles nothing: the constructor is
made at the first call, the codecs by `wire/codec` at the first use of a version.

The functions that describe a field say that they return the field's value, which is what type
checkers must believe of `name: str = string()`; what they really return is a Field, which the
metaclass takes out of the class.
"""

from collections.abc import Callable
from enum import Enum, auto
from functools import cache
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform, overload

from penstock.model.lazy_dataclass import dataclass
from penstock.wire.api import VersionRange

LATEST = 32767
OWN_TAGS_FROM = 10_000  # tagged fields that Apache Kafka does not have, and skips
EVERY_VERSION = VersionRange(0, LATEST)


class Kind(Enum):
    """How a value travels."""

    BOOL = auto()
    INT8 = auto()
    INT16 = auto()
    UINT16 = auto()
    INT32 = auto()
    INT64 = auto()
    FLOAT64 = auto()
    UUID = auto()
    STRING = auto()
    BYTES = auto()
    RECORDS = auto()
    ARRAY = auto()
    STRUCT = auto()


@dataclass(slots=True, kw_only=True)
class Field:
    """One field of a struct, or the element of an array (which has no name)."""

    kind: Kind
    versions: VersionRange
    default: object
    null_versions: VersionRange | None = None
    tag: int | None = None
    element: "Field | None" = None  # of an array
    struct: "type[Struct] | None" = None
    is_prose: bool = False  # a string that is cut when it is too long
    name: str = ""

    def nullable_in(self, version: int) -> bool:
        return self.null_versions is not None and version in self.null_versions


Reader = Callable[[memoryview, int], tuple[Any, int]]
Writer = Callable[[Any, list[Any], list[int]], None]


@cache
def versions_of(text: str) -> VersionRange:
    """ "3+", "0-12" or "4" as a range."""
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), LATEST)
    low, _, high = text.partition("-")
    return VersionRange(int(low), int(high or low))


@dataclass_transform(kw_only_default=True, eq_default=True)
class Definition(type):
    """Turns a class body of fields into a class with slots that remembers its fields."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        body: dict[str, Any],
        *,
        key: int = -1,
        versions: str | None = None,
        flexible_from: int | None = None,
    ) -> "Definition":
        fields = []
        for field_name in [name for name, value in body.items() if isinstance(value, Field)]:
            field = body.pop(field_name)
            field.name = field_name
            fields.append(field)
        body["__slots__"] = tuple(field.name for field in fields)
        body["FIELDS"] = tuple(fields)
        if versions is not None:
            body["API_KEY"] = key
            body["VERSIONS"] = versions_of(versions)
            body["FLEXIBLE_FROM"] = flexible_from
            body["READERS"] = {}
            body["WRITERS"] = {}
        return super().__new__(mcs, name, bases, body)

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **_: object):
        super().__init__(name, bases, body)


class Struct(metaclass=Definition):
    """A part of a message."""

    FIELDS: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: object) -> None:
        cls = type(self)
        type.__setattr__(cls, "__init__", compile_constructor(cls))
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._names())

    __hash__ = None  # type: ignore[assignment]  # values change: they must not be keys

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names())
        return f"{type(self).__name__}({values})"

    def _names(self) -> list[str]:
        return [field.name for field in self.FIELDS]


class Message(Struct):
    """A whole message: a request, a reply, or a record of the metadata log."""

    API_KEY: ClassVar[int]  # of the API; of a record, its type; -1 where there is neither
    VERSIONS: ClassVar[VersionRange]
    FLEXIBLE_FROM: ClassVar[int | None]
    READERS: ClassVar[dict[int, Reader]]  # by version; filled by wire/codec at the first use
    WRITERS: ClassVar[dict[int, Writer]]


Value = TypeVar("Value")
AnyStruct = TypeVar("AnyStruct", bound=Struct)


def boolean(versions: str = "0+", *, default: bool = False) -> bool:
    return cast(bool, _field(Kind.BOOL, versions, default))


def int8(versions: str = "0+", *, default: int = 0) -> int:
    return cast(int, _field(Kind.INT8, versions, default))


def int16(versions: str = "0+", *, default: int = 0) -> int:
    return cast(int, _field(Kind.INT16, versions, default))


def uint16(versions: str = "0+", *, default: int = 0) -> int:
    return cast(int, _field(Kind.UINT16, versions, default))


def int32(versions: str = "0+", *, default: int = 0) -> int:
    return cast(int, _field(Kind.INT32, versions, default))


def int64(versions: str = "0+", *, default: int = 0) -> int:
    return cast(int, _field(Kind.INT64, versions, default))


def float64(versions: str = "0+", *, default: float = 0.0) -> float:
    return cast(float, _field(Kind.FLOAT64, versions, default))


def uuid(versions: str = "0+") -> bytes:
    """Sixteen raw bytes; all zero is Kafka's way to say that there is none."""
    return cast(bytes, _field(Kind.UUID, versions, bytes(16)))


def string(versions: str = "0+", *, default: str = "") -> str:
    return cast(str, _field(Kind.STRING, versions, default))


def prose(versions: str = "0+") -> str | None:
    """Words for people, or None. They may quote what a peer sent, so they are cut to fit."""
    field = _field(Kind.STRING, versions, None)
    field.null_versions = field.versions
    field.is_prose = True
    return cast(str, field)


def octets(versions: str = "0+") -> bytes:
    return cast(bytes, _field(Kind.BYTES, versions, b""))


def records(versions: str = "0+", *, is_nullable: bool = True) -> Any:
    """Record batches. Read in place, as a view of the received bytes."""
    field = _field(Kind.RECORDS, versions, None if is_nullable else b"")
    field.null_versions = field.versions if is_nullable else None
    return field


@overload
def array(element: type[AnyStruct], versions: str = "0+") -> list[AnyStruct]: ...
@overload
def array(element: Value, versions: str = "0+") -> list[Value]: ...
def array(element: object, versions: str = "0+") -> object:
    """A list of structs, given as their class, or of simple values: `array(int32())`."""
    if isinstance(element, type):
        element = Field(kind=Kind.STRUCT, versions=EVERY_VERSION, default=None, struct=element)
    assert isinstance(element, Field)
    field = _field(Kind.ARRAY, versions, [])
    field.element = element
    return field


def nullable_struct(struct: type[AnyStruct], versions: str = "0+") -> AnyStruct | None:
    field = _field(Kind.STRUCT, versions, None)
    field.struct = struct
    field.null_versions = field.versions
    return cast(AnyStruct, field)


def embedded(struct: type[AnyStruct], versions: str = "0+") -> AnyStruct:
    """A struct that is always there."""
    field = _field(Kind.STRUCT, versions, struct)
    field.struct = struct
    return cast(AnyStruct, field)


def nullable(value: Value, versions: str = "0+", *, default: object = ...) -> Value | None:
    """The value, or null in `versions`. Its default stays, unless None is given as another."""
    field = cast(Field, value)
    field.null_versions = versions_of(versions)
    if default is None:
        field.default = None
    return value


def tagged(tag: int, value: Value) -> Value:
    """A tagged field: it travels only when it differs from its default."""
    cast(Field, value).tag = tag
    return value


def tagged_struct(tag: int, struct: type[AnyStruct], versions: str) -> AnyStruct | None:
    """A tagged struct; None when it is absent."""
    field = _field(Kind.STRUCT, versions, None)
    field.struct = struct
    field.tag = tag
    return cast(AnyStruct, field)


def compile_constructor(cls: type[Struct]) -> Callable[..., None]:
    """An __init__ with keywords. Lists and embedded structs are made afresh for each instance."""
    namespace: dict[str, Any] = {"absent": object()}
    parameters, lines = [], []
    for field in cls.FIELDS:
        name, fresh = field.name, None
        if isinstance(field.default, list):
            fresh = "[]"
        elif isinstance(field.default, type):
            fresh = f"{name}_class()"
            namespace[f"{name}_class"] = field.default
        namespace[f"{name}_default"] = field.default
        parameters.append(f"{name}=absent" if fresh else f"{name}={name}_default")
        value = f"{fresh} if {name} is absent else {name}" if fresh else name
        lines.append(f"    self.{name} = {value}")
    signature = ", ".join(["self", "*", *parameters] if parameters else ["self"])
    exec("\n".join([f"def __init__({signature}):", *(lines or ["    pass"])]), namespace)
    return cast(Callable[..., None], namespace["__init__"])


def _field(kind: Kind, versions: str, default: object) -> Field:
    return Field(kind=kind, versions=versions_of(versions), default=default)
