"""The quick dataclass behaves as the standard one, and its class is made without compiling."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any

import pytest

from tidegate import quick

OPTIONS = {"frozen": True, "slots": True, "kw_only": True}
Decorator = Callable[[type], type]


def _shapes(decorate: Decorator) -> dict[str, Any]:
    @decorate
    class Empty:
        """No fields."""

    @decorate
    class Point:
        """Defaults, factories, and a field that takes no part in comparisons."""

        x: int
        tags: list[str] = field(default_factory=list, compare=False)
        note: str = field(default="", repr=False, hash=False)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x")

        @property
        def double(self) -> int:
            return self.x * 2

    @decorate
    class Named(Point):
        """Fields of a base, and one more."""

        name: str | None = None

    @decorate
    class Loose:  # noqa: PLW1641 -- the decorator makes it
        """Says itself what is equal."""

        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Loose) and self.x % 2 == other.x % 2

    return {made.__name__: made for made in (Empty, Point, Named, Loose)}


QUICK = _shapes(quick.dataclass(**OPTIONS))
STANDARD = _shapes(dataclasses.dataclass(**OPTIONS))


@pytest.fixture(params=[QUICK, STANDARD], ids=["quick", "standard"])
def shapes(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_values_are_equal_and_hashed_by_their_compared_fields(shapes: Any) -> None:
    """Fields that are not compared play no part; another class is never equal."""
    point, named = shapes["Point"], shapes["Named"]
    assert point(x=1, tags=["a"]) == point(x=1, tags=["b"])
    assert point(x=1) != point(x=1, note="n")
    assert hash(point(x=1)) == hash(point(x=1, note="n"))
    assert point(x=1) != named(x=1)
    assert shapes["Empty"]() == shapes["Empty"]()
    nan = float("nan")
    assert named(x=1, name=nan) == named(x=1, name=nan)
    assert shapes["Loose"](x=1) == shapes["Loose"](x=3)
    assert hash(shapes["Loose"](x=1)) != hash(shapes["Loose"](x=3))


def test_values_do_not_change(shapes: Any) -> None:
    """No field is assigned, deleted or added; a changed copy is a new value, and checked anew."""
    point = shapes["Point"](x=1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises((FrozenInstanceError, TypeError)):
        point.other = 2
    assert not hasattr(point, "__dict__")
    assert replace(point, x=4).double == 8
    with pytest.raises(ValueError, match="x"):
        replace(point, x=-1)


def test_arguments_are_named_and_checked(shapes: Any) -> None:
    """Positions, unknown names and missing ones are refused, by the first object and by later ones."""
    named = shapes["Named"]
    for _ in range(2):
        with pytest.raises(TypeError, match="x"):
            named()
        with pytest.raises(TypeError, match="positional"):
            named(1)
        with pytest.raises(TypeError, match="z"):
            named(x=1, z=2)
    assert named(x=1).tags is not named(x=1).tags
    assert [one.name for one in fields(named)] == ["x", "tags", "note", "name"]


def test_values_are_shown_and_copied(shapes: Any) -> None:
    """The text names the fields; copies are equal."""
    named = shapes["Named"](x=1, name="n", note="hidden")
    assert repr(named).endswith("Named(x=1, tags=[], name='n')")
    for twin in (copy.copy(named), copy.deepcopy(named)):
        assert twin == named
        assert twin.note == "hidden"


def test_values_are_pickled() -> None:
    """A value of ours crosses to another process."""
    from tidegate.progress.marks import Marks

    marks = Marks()
    assert pickle.loads(pickle.dumps(marks)) == marks


def test_other_options_are_left_to_the_standard_library() -> None:
    """Ordered, positional or changing ones are not for here."""

    @quick.dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        x: int

    assert Ordered(1) < Ordered(2)


@pytest.mark.parametrize("decorate", [quick.dataclass, dataclasses.dataclass], ids=["quick", "standard"])
def test_what_has_slots_may_change_and_take_positions(decorate: Any) -> None:
    """Without `frozen` fields are assigned and there is no hash; without `kw_only` arguments have places."""

    @decorate(slots=True)
    class Counter:
        """Changes."""

        name: str
        seen: list[int] = field(default_factory=list)
        _: dataclasses.KW_ONLY
        step: int = 1

    counter = Counter("a", [1])
    counter.step = 2
    assert counter == Counter("a", [1], step=2)
    assert Counter("a") != counter
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)
    with pytest.raises(AttributeError):
        counter.other = 1
    with pytest.raises(TypeError, match="positional"):
        Counter("a", [1], 2)
    assert copy.deepcopy(counter) == counter

    @decorate(frozen=True, slots=True)
    class Pair:
        """Has places."""

        left: int
        right: int = 0

    assert Pair(1) == Pair(1, 0)
    assert {Pair(1, 2): "x"}[Pair(1, right=2)] == "x"
    match Pair(3, 4):
        case Pair(left, right):
            assert (left, right) == (3, 4)


def test_nothing_is_compiled_before_the_first_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what makes it quick; a negative control shows that the standard one is caught."""
    compiled: list[object] = []
    real = exec
    monkeypatch.setattr("builtins.exec", lambda *given: (compiled.append(given), real(*given))[1])
    point = _shapes(quick.dataclass(**OPTIONS))["Point"]
    assert not compiled
    assert point(x=1).double == 2
    assert compiled
    compiled.clear()
    _shapes(dataclasses.dataclass(**OPTIONS))
    assert compiled
