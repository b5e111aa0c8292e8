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
from dataclasses import Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

__all__ = ["dataclass"]

_VALUE: Final = {"frozen": True, "slots": True, "kw_only": True}


def _dataclass(**options: bool) -> Callable[[type], type]:
    """The decorator for these options: quick for a frozen, slotted, keyword-only value, else the standard one."""
    return _value if options == _VALUE else dataclasses.dataclass(**options)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


def _value(cls: type) -> type:
    made = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True, slots=True)(cls)
    own = made.__dict__
    for name, method in _methods(made, dataclasses.fields(made)).items():
        # What a class says itself stays; `__hash__` is None where it only says what is equal.
        if own.get(name) is None:
            setattr(made, name, method)
    return made


def _methods(made: type, fields: tuple[Field[Any], ...]) -> dict[str, Callable[..., Any]]:
    names = tuple(one.name for one in fields)
    compared = _taking(one.name for one in fields if one.compare)
    hashed = _taking(one.name for one in fields if (one.compare if one.hash is None else one.hash))
    shown = tuple(one.name for one in fields if one.repr)

    def __init__(self: Any, /, *given: Any, **named: Any) -> None:
        made.__init__ = _initializer(made, fields)  # type: ignore[misc]  # from now on it is the compiled one
        made.__init__(self, *given, **named)

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
        super(made, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

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
    """The `__init__` that the standard library makes for a class with the same fields."""
    namespace: dict[str, Any] = {
        one.name: dataclasses.field(  # type: ignore[call-overload]  # one of the two is missing
            default=one.default, default_factory=one.default_factory, init=one.init, kw_only=True
        )
        for one in fields
    }
    namespace["__annotations__"] = {one.name: one.type for one in fields}
    namespace["__module__"] = made.__module__
    if hasattr(made, "__post_init__"):
        namespace["__post_init__"] = made.__post_init__
    like = dataclasses.dataclass(frozen=True, repr=False, eq=False)(type(made.__name__, (), namespace))
    return like.__init__  # type: ignore[misc,no-any-return]  # it is put into the class that it is like
