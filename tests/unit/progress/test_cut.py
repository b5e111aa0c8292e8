"""The cut rule, against every choice of versions there is."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tidegate.progress.cut import Choice, InputState, Mode, Problem, Standing, Verdict, decide
from tidegate.progress.groups import AtLeast, Group
from tidegate.progress.watermarks import Vector, Watermark

SOURCES = ("a", "b", "c")


def vector(**values: int) -> Vector:
    return Vector({source: Watermark.of_integer(value) for source, value in values.items()})


def state(name: str, roots: str, *choices: Choice) -> InputState:
    return InputState(name=name, roots=frozenset(roots), choices=choices)


def choice(version: int, *, holds_more: bool = False, **values: int) -> Choice:
    return Choice(version=version, vector=vector(**values), holds_more=holds_more)


def versions(verdict: Verdict) -> dict[str, int]:
    return {name: one.version for name, one in verdict.cut.items()}


# Inputs whose versions and vectors rise together.


@st.composite
def an_input(draw: st.DrawFn, name: str) -> InputState:
    roots = draw(st.sets(st.sampled_from(SOURCES), min_size=1, max_size=2))
    count = draw(st.integers(1, 5))
    # A root that never spoke is missing from the first versions on.
    columns = {root: sorted(draw(st.lists(st.integers(-2, 6), min_size=count, max_size=count))) for root in roots}
    choices = [
        Choice(
            version=10 + 3 * n,
            vector=vector(**{root: values[n] for root, values in columns.items() if values[n] >= 0}),
            holds_more=draw(st.booleans()) and n > 0,
        )
        for n in range(count)
    ]
    return InputState(name=name, roots=frozenset(roots), choices=tuple(choices))


groups = st.lists(
    st.builds(
        lambda sources, tolerance, floor: (sources, tolerance, floor),
        st.sets(st.sampled_from(SOURCES), min_size=1),
        st.integers(0, 3),
        st.none() | st.integers(0, 4),
    ),
    max_size=2,
).map(
    lambda found: [
        Group(
            name=f"g{n}",
            sources=tuple(sorted(sources)),
            tolerance=tolerance,
            at_least=None if floor is None else AtLeast(value=Watermark.of_integer(floor)),
            bootstrap_open=False,
        )
        for n, (sources, tolerance, floor) in enumerate(found)
    ]
)


def feasible(inputs: list[InputState], judged: list[Group], chosen: Mapping[str, Choice]) -> bool:
    """The definition, word for word."""
    for root in SOURCES:
        values = [chosen[one.name].vector.get(root) for one in inputs if root in one.roots]
        if len(set(values)) > 1:
            return False
    for group in judged:
        values = [chosen[one.name].vector.get(r) for one in inputs for r in group.sources if r in one.roots]
        if None in values:
            return False
        numbers = [value.value for value in values if value is not None]
        if numbers and max(numbers) - min(numbers) > group.tolerance:
            return False
        if numbers and group.at_least is not None and min(numbers) < group.at_least.floor(0).value:
            return False
    return True


@given(st.tuples(an_input("x"), an_input("y"), an_input("z")), st.integers(1, 3), groups)
def test_hold_back_is_the_one_greatest_feasible_choice(
    three: tuple[InputState, ...], count: int, judged: list[Group]
) -> None:
    inputs = list(three[:count])
    ladders = [[c for c in one.choices if not c.holds_more] for one in inputs]
    every = [dict(zip([one.name for one in inputs], row, strict=True)) for row in product(*ladders)]
    fine = [chosen for chosen in every if feasible(inputs, judged, chosen)]
    verdict = decide(Mode.HOLD_BACK, inputs, judged, now_us=0)
    if not fine:
        assert verdict.standing is Standing.CLOSED
        assert verdict.reason
        return
    greatest = {one.name: max(chosen[one.name].version for chosen in fine) for one in inputs}
    assert versions(verdict) == greatest
    newest = {one.name: one.choices[-1].version for one in inputs}
    assert (verdict.standing is Standing.OPEN) == (greatest == newest)
    assert (verdict.reason is None) == (greatest == newest)


@given(st.tuples(an_input("x"), an_input("y"), an_input("z")), st.integers(1, 3), groups)
def test_gate_opens_exactly_on_feasible_newest_versions(
    three: tuple[InputState, ...], count: int, judged: list[Group]
) -> None:
    inputs = list(three[:count])
    newest = {one.name: one.choices[-1] for one in inputs}
    verdict = decide(Mode.GATE, inputs, judged, now_us=0)
    assert (verdict.standing is Standing.OPEN) == feasible(inputs, judged, newest)
    assert versions(verdict) in ({}, {name: one.version for name, one in newest.items()})
    if verdict.is_closed:
        assert verdict.reason
        assert verdict.blocked_by


@given(st.tuples(an_input("x"), an_input("y")), groups)
def test_none_reads_the_newest_whatever_the_groups_say(two: tuple[InputState, ...], judged: list[Group]) -> None:
    verdict = decide(Mode.NONE, two, judged, now_us=0)
    assert verdict.standing is Standing.OPEN
    assert versions(verdict) == {one.name: one.choices[-1].version for one in two}


PAIR = Group(name="pair", sources=("a", "b"), bootstrap_open=False)
OPEN_PAIR = Group(name="pair", sources=("a", "b"))


def test_the_gate_names_who_is_behind() -> None:
    verdict = decide(Mode.GATE, [state("x", "a", choice(1, a=5)), state("y", "b", choice(1, b=2))], [PAIR], now_us=0)
    assert verdict.reason == "b is 3 behind a in group pair (tolerance 0)"
    assert verdict.blocked_by == ("b",)


def test_every_overlapped_group_must_hold() -> None:
    inputs = [state(name, name, choice(1, **{name: value})) for name, value in (("a", 5), ("b", 5), ("c", 1))]
    both = [PAIR, Group(name="other", sources=("b", "c"))]
    verdict = decide(Mode.GATE, inputs, both, now_us=0)
    assert verdict.reason == "c is 4 behind b in group other (tolerance 0)"


def test_a_tolerance_of_the_table_wins() -> None:
    inputs = [state("x", "a", choice(1, a=5)), state("y", "b", choice(1, b=2))]
    assert decide(Mode.GATE, inputs, [PAIR], now_us=0, tolerance=3).standing is Standing.OPEN


def test_bootstrap_runs_ungated_until_every_member_has_reported() -> None:
    inputs = [state("x", "a", choice(1, a=5)), state("y", "b", choice(4))]
    verdict = decide(Mode.GATE, inputs, [OPEN_PAIR], now_us=0)
    assert (verdict.standing, verdict.ungated, versions(verdict)) == (Standing.OPEN, ("pair",), {"x": 1, "y": 4})
    assert verdict.effective == {}
    closed = decide(Mode.GATE, inputs, [PAIR], now_us=0)
    assert (closed.standing, closed.blocked_by) == (Standing.CLOSED, ("b",))


def test_a_member_added_to_a_group_in_use_is_waited_for() -> None:
    inputs = [state("x", "a", choice(1, a=5)), state("y", "b", choice(4))]
    verdict = decide(Mode.GATE, inputs, [OPEN_PAIR], now_us=0, in_use=frozenset({"pair"}))
    assert verdict.reason == "b has not reported a watermark yet in group pair"


def test_hold_back_does_not_read_rows_beyond_the_watermark() -> None:
    x = state("x", "a", choice(3, a=5), choice(4, a=5, holds_more=True))
    verdict = decide(Mode.HOLD_BACK, [x, state("y", "b", choice(7, b=5))], [PAIR], now_us=0)
    assert (verdict.standing, versions(verdict)) == (Standing.CAPPED, {"x": 3, "y": 7})
    assert verdict.reason == "x may have rows beyond the watermark (a 5)"


def test_inputs_that_share_a_root_must_agree_on_it() -> None:
    direct = state("orders", "a", choice(8, a=5), choice(9, a=7))
    summary = state("summary", "a", choice(2, a=5))
    gate = decide(Mode.GATE, [direct, summary], [], now_us=0)
    assert gate.reason == "summary has a to 5, 2 behind orders"
    held = decide(Mode.HOLD_BACK, [direct, summary], [], now_us=0)
    assert versions(held) == {"orders": 8, "summary": 2}


def test_the_vector_is_the_lowest_of_a_shared_root_and_effective_the_lowest_of_a_group() -> None:
    inputs = [state("x", "ab", choice(1, a=5, b=9)), state("y", "a", choice(1, a=4))]
    verdict = decide(Mode.NONE, inputs, [PAIR], now_us=0)
    assert verdict.vector == vector(a=4, b=9)
    assert verdict.effective == {"pair": Watermark.of_integer(4)}


def test_a_root_that_one_input_does_not_speak_of_is_unknown() -> None:
    inputs = [state("x", "a", choice(1, a=5)), state("y", "a", choice(1))]
    assert decide(Mode.NONE, inputs, [PAIR], now_us=0).vector == Vector()


def test_an_input_without_a_version_closes_every_mode() -> None:
    for mode in Mode:
        verdict = decide(mode, [state("x", "a")], [], now_us=0)
        assert (verdict.reason, verdict.blocked_by) == ("x has nothing published yet", ("x",))


def test_an_input_that_cannot_be_judged_closes_every_mode() -> None:
    broken = InputState(name="x", roots=frozenset("a"), problem=Problem(code="TG-K003", text="x is torn"))
    for mode in Mode:
        verdict = decide(mode, [broken], [], now_us=0)
        assert (verdict.standing, verdict.code, verdict.reason) == (Standing.CLOSED, "TG-K003", "x is torn")
