"""`dataclass` as in the standard library, except that methods are compiled at their first call.

The decorator of the standard library compiles up to six methods for each class, 0.7 ms for a frozen
one. A node imports more than a hundred of them when it starts, and that was a third of the start;
most of their methods are not called before it is ready. So the modules that a node is made of use
this decorator. mypyc takes it for the other one, too: it hands over the compiled class, which has
its attributes already, to be completed in place.

A class is the same with either: `fields`, `replace`, `asdict`, `match`, `copy` and `pickle` work on
it, and type checkers take this decorator for the other one. What no class of ours needs is missing:
`order`, defaults of fields that are not in the constructor, and classes that derive from a
dataclass.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        *,
        frozen: bool = False,
        slots: bool = True,
        kw_only: bool = False,
        init: bool = True,
        eq: bool = True,
    ) -> Callable[[type], type]:
        assert slots, "values have slots"

        def make(body: type) -> type:
            return _make(body, frozen=frozen, kw_only=kw_only, init=init, eq=eq)

        return make


def _make(body: type, *, frozen: bool, kw_only: bool, init: bool, eq: bool) -> Any:
    if body.__doc__ is None:
        # The standard library would write the constructor's signature there, which takes 0.3 ms.
        body.__doc__ = body.__name__
    slots = "__mypyc_attrs__" not in body.__dict__
    plain = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
    cls: Any = plain(body)
    own = cls.__dict__
    parameters = own["__dataclass_params__"]
    parameters.init, parameters.repr = init, True
    parameters.eq, parameters.frozen = eq, frozen
    if init:
        cls.__init__ = _until_called(cls, "__init__", _init_source)
    if "__repr__" not in own:
        cls.__repr__ = _repr
    if eq and "__eq__" not in own:
        cls.__eq__ = _until_called(cls, "__eq__", _eq_source)
        if "__hash__" not in own:
            cls.__hash__ = _until_called(cls, "__hash__", _hash_source) if frozen else None
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refuse_assignment, _refuse_deletion
        if slots:
            cls.__getstate__, cls.__setstate__ = _state, _set_state
    return cls


# Of a method of the class; what it uses is put into the namespace.
Source = Callable[[Any, dict[str, Any]], str]


def _until_called(cls: Any, name: str, source: Source) -> Callable[..., Any]:
    """A method that replaces itself by the compiled one at the first call."""

    def first_call(self: Any, *positional: Any, **named: Any) -> Any:
        namespace: dict[str, Any] = {"__name__": cls.__module__}
        exec(source(cls, namespace), namespace)
        method = namespace[name]
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, method)
        return method(self, *positional, **named)

    return first_call


def _init_source(cls: Any, namespace: dict[str, Any]) -> str:
    """Values go straight into the slots, since a frozen class refuses assignments."""
    by_place: list[str] = []
    by_name: list[str] = []
    lines: list[str] = []
    for field in dataclasses.fields(cls):
        if not field.init:
            assert field.default is MISSING, "`__post_init__` gives the value"
            continue
        name = field.name
        parameter, value = name, name
        if field.default_factory is not MISSING:
            namespace[f"__make_{name}"], namespace["__absent"] = field.default_factory, MISSING
            parameter = f"{name}=__absent"
            value = f"__make_{name}() if {name} is __absent else {name}"
        elif field.default is not MISSING:
            namespace[f"__default_{name}"] = field.default
            parameter = f"{name}=__default_{name}"
        (by_name if field.kw_only else by_place).append(parameter)
        if cls.__dataclass_params__.frozen:
            namespace[f"__set_{name}"] = vars(cls)[name].__set__
            lines.append(f"    __set_{name}(self, {value})")
        else:
            lines.append(f"    self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    parameters = ", ".join(["self", *by_place, *(["*", *by_name] if by_name else [])])
    return "\n".join([f"def __init__({parameters}):", *(lines or ["    pass"])])


def _eq_source(cls: Any, namespace: dict[str, Any]) -> str:
    mine, others = _compared(cls, "self"), _compared(cls, "other")
    return (
        "def __eq__(self, other):\n"
        "    if other.__class__ is not self.__class__:\n"
        "        return NotImplemented\n"
        f"    return {mine} == {others}"
    )


def _hash_source(cls: Any, namespace: dict[str, Any]) -> str:
    return f"def __hash__(self):\n    return hash({_compared(cls, 'self')})"


def _compared(cls: Any, owner: str) -> str:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    return f"({''.join(f'{owner}.{name}, ' for name in names)})"


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (field.name for field in dataclasses.fields(self) if field.repr)
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({values})"


def _refuse_assignment(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
