"""`dataclass` as the standard library has it, but its classes are made in a tenth of the time.

For what `tidegate status` loads. `dataclasses` writes seven methods of a class as text and compiles
each: 0.5 ms a class with Python 3.11, and half of all that `status` took. Here `__init__` is
compiled when the first object is made, and the others are closures. To a type checker this *is*
the standard one.
"""

# ruff: noqa: N807 -- the functions here are methods of other classes
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

__all__ = ["dataclass"]

_FROZEN: Final = {"__hash__", "__setattr__", "__delattr__", "__getstate__", "__setstate__"}
_UNSET: Final = object()
_KNOWN: Final = {"frozen", "slots", "kw_only"}


def _dataclass(**options: bool) -> Callable[[type], type]:
    """The decorator for these options: quick for a class with slots and without an order, else the standard one."""
    if not options.get("slots") or not options.keys() <= _KNOWN:
        return dataclasses.dataclass(**options)
    return lambda cls: _made(cls, frozen=options.get("frozen", False), kw_only=options.get("kw_only", False))


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


def _made(cls: type, *, frozen: bool, kw_only: bool) -> type:
    if cls.__doc__ is None:
        # Else the standard library writes one from the signature, in a millisecond.
        cls.__doc__ = cls.__name__
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only, slots=True)(cls)
    own = made.__dict__
    for name, method in _methods(made, dataclasses.fields(made)).items():
        if not frozen and name in _FROZEN:
            continue
        # What a class says itself stays; `__hash__` is None where it only says what is equal.
        if own.get(name) is None:
            setattr(made, name, method)
    if not frozen and "__hash__" not in own:
        type.__setattr__(made, "__hash__", None)
    return made


def _methods(made: type, fields: tuple[Field[Any], ...]) -> dict[str, Callable[..., Any]]:
    names = tuple(one.name for one in fields)
    compared = _taking(one.name for one in fields if one.compare)
    hashed = _taking(one.name for one in fields if (one.compare if one.hash is None else one.hash))
    shown = tuple(one.name for one in fields if one.repr)

    def __init__(self: Any, /, *given: Any, **named: Any) -> None:
        initializer = _initializer(made, fields)
        type.__setattr__(made, "__init__", initializer)  # from now on it is the compiled one
        initializer(self, *given, **named)

    @recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __eq__(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(hashed(self))

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    methods = (__init__, __repr__, __eq__, __hash__, __setattr__, __delattr__, __getstate__, __setstate__)
    return {method.__name__: method for method in methods}


def _taking(names: Any) -> Callable[[Any], tuple[Any, ...]]:
    """What takes the values of these fields from an object, as a tuple however many they are."""
    wanted = tuple(names)
    if len(wanted) < 2:
        return lambda value: tuple(getattr(value, name) for name in wanted)
    return attrgetter(*wanted)


def _initializer(made: type, fields: tuple[Field[Any], ...]) -> Callable[..., None]:
    """The `__init__` of the class, as the standard library would write it."""
    given: dict[str, Any] = {"_put": object.__setattr__, "_unset": _UNSET}
    parameters, lines = ["self"], []
    for one in sorted(fields, key=lambda one: bool(one.kw_only)):
        given[f"_made_{one.name}"], given[f"_else_{one.name}"] = one.default_factory, one.default
        value = one.name if one.init else f"_else_{one.name}"
        if one.default_factory is not MISSING:
            value = f"_made_{one.name}() if {one.name} is _unset else {one.name}" if one.init else f"_made_{one.name}()"
        if one.init:
            otherwise = "_unset" if one.default_factory is not MISSING else f"_else_{one.name}"
            is_needed = one.default is MISSING and one.default_factory is MISSING
            if one.kw_only and "*" not in parameters:
                parameters.append("*")
            parameters.append(one.name if is_needed else f"{one.name}={otherwise}")
        if one.init or value != f"_else_{one.name}" or one.default is not MISSING:
            lines.append(f"_put(self, {one.name!r}, {value})")
    if hasattr(made, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n {'; '.join(lines) or 'pass'}", given)
    initializer: Callable[..., None] = given["__init__"]
    initializer.__qualname__ = f"{made.__qualname__}.__init__"
    return initializer
