"""The cut rule, against every choice of versions there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.progress import cut
from tidegate.progress.cut import Choice, InputState, Mode, Problem, Standing, Verdict, decide
from tidegate.progress.groups import AtLeast, Group, WhenStuck
from tidegate.progress.watermarks import Vector, Watermark

SOURCES = ("a", "b", "c")


def vector(**values: int) -> Vector:
    return Vector({source: Watermark.of_integer(value) for source, value in values.items()})


def state(name: str, roots: str, *choices: Choice, by_row: bool = False, shown: int | None = None) -> InputState:
    floor = None if shown is None else Watermark.of_integer(shown)
    return InputState(name=name, roots=frozenset(roots), choices=choices, by_row=by_row, shown=floor)


def choice(version: int, *, holds_more: bool = False, at_us: int = 0, **values: int) -> Choice:
    return Choice(version=version, vector=vector(**values), holds_more=holds_more, at_us=at_us)


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
    by_row = len(roots) == 1 and draw(st.booleans())
    shown = draw(st.none() | st.integers(0, 3).map(Watermark.of_integer)) if by_row else None
    return InputState(name=name, roots=frozenset(roots), choices=tuple(choices), by_row=by_row, shown=shown)


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


def options(one: InputState) -> list[Choice]:
    """Everything that hold_back might read of an input: a version, or a version up to a bound."""
    if not one.by_row:
        return [choice for choice in one.choices if not choice.holds_more]
    [root] = one.roots
    least = 0 if one.shown is None else one.shown.value
    found = [choice for choice in one.choices if root not in choice.vector and one.shown is None]
    for choice in one.choices:
        if root in choice.vector:
            bounds = range(least, choice.vector[root].value + 1)
            found += [replace(choice, vector=vector(**{root: bound})) for bound in bounds]
    return found


def reach(choice: Choice) -> tuple[int, int]:
    """How much of an input is read: more versions, then more rows."""
    return choice.version, max((value.value for value in choice.vector.values()), default=-1)


@given(st.tuples(an_input("x"), an_input("y"), an_input("z")), st.integers(1, 3), groups)
def test_hold_back_is_the_one_greatest_feasible_choice(
    three: tuple[InputState, ...], count: int, judged: list[Group]
) -> None:
    inputs = list(three[:count])
    every = [dict(zip([one.name for one in inputs], row, strict=True)) for row in product(*map(options, inputs))]
    fine = [chosen for chosen in every if feasible(inputs, judged, chosen)]
    verdict = decide(Mode.HOLD_BACK, inputs, judged, now_us=0)
    if not fine:
        assert verdict.standing is Standing.CLOSED
        assert verdict.reason
        assert verdict.code
        return
    greatest = {one.name: max((chosen[one.name] for chosen in fine), key=reach) for one in inputs}
    assert {name: (c.version, c.vector) for name, c in verdict.cut.items()} == {
        name: (c.version, c.vector) for name, c in greatest.items()
    }
    newest = {one.name: one.choices[-1] for one in inputs}
    is_newest = all(greatest[name] == choice and not choice.holds_more for name, choice in newest.items())
    assert (verdict.standing is Standing.OPEN) == is_newest
    assert (verdict.reason is None) == is_newest


@given(st.tuples(an_input("x"), an_input("y")), groups, st.lists(st.integers(1, 4), min_size=2, max_size=2))
def test_the_cut_never_goes_back_as_versions_arrive(
    two: tuple[InputState, ...], judged: list[Group], known: list[int]
) -> None:
    """What could be read can still be read when more is there."""
    before = [replace(one, choices=one.choices[:count]) for one, count in zip(two, known, strict=True)]
    then = decide(Mode.HOLD_BACK, before, judged, now_us=0)
    now = decide(Mode.HOLD_BACK, two, judged, now_us=0)
    if not then.is_closed:
        assert not now.is_closed
        assert all(reach(then.cut[name]) <= reach(now.cut[name]) for name in then.cut)


@given(st.lists(st.integers(0, 6), min_size=2, max_size=3), st.integers(0, 3), st.data())
def test_advancing_a_source_that_is_behind_never_closes_a_gate(
    values: list[int], tolerance: int, data: st.DataObject
) -> None:
    """As long as it does not overtake the one that was first."""
    names = SOURCES[: len(values)]
    group = Group(name="all", sources=names, tolerance=tolerance)

    def gate(those: list[int]) -> Verdict:
        inputs = [state(name, name, choice(1, **{name: value})) for name, value in zip(names, those, strict=True)]
        return decide(Mode.GATE, inputs, [group], now_us=0)

    at = data.draw(st.integers(0, len(values) - 1))
    moved = data.draw(st.integers(values[at], max(values)))
    later = [*values[:at], moved, *values[at + 1 :]]
    assert gate(values).is_closed or not gate(later).is_closed


@given(st.permutations([0, 1, 2]), st.tuples(an_input("x"), an_input("y"), an_input("z")), groups)
def test_the_order_of_inputs_and_groups_is_irrelevant(
    order: list[int], three: tuple[InputState, ...], judged: list[Group]
) -> None:
    """What `explain` shows is what a refresh does, whoever lists the inputs."""
    for mode in Mode:
        first = decide(mode, three, judged, now_us=0)
        again = decide(mode, [three[at] for at in order], judged[::-1], now_us=0)
        assert (first.standing, first.cut, first.vector) == (again.standing, again.cut, again.vector)


# Whatever is told: versions in any order, vectors that fall, foreign sources, both kinds of value.
ANYTHING = st.builds(
    InputState,
    name=st.sampled_from("xyz"),
    roots=st.just(frozenset("ab")),
    choices=st.lists(
        st.builds(
            Choice,
            version=st.integers(0, 4),
            vector=st.dictionaries(
                st.sampled_from("abc"),
                st.builds(
                    lambda n, timed: (Watermark.of_micros if timed else Watermark.of_integer)(n),
                    st.integers(0, 3),
                    st.booleans(),
                ),
                max_size=2,
            ).map(Vector),
            holds_more=st.booleans(),
        ),
        max_size=3,
    ).map(tuple),
)


@given(st.sampled_from(Mode), st.lists(ANYTHING, min_size=1, max_size=3))
def test_whatever_is_told_closes_or_gives_a_cut_that_agrees(mode: Mode, inputs: list[InputState]) -> None:
    """Nothing is raised, and a closed gate says why."""
    group = Group(name="pair", sources=("a", "b"), tolerance=1, bootstrap_open=False)
    verdict = decide(mode, inputs, [group], now_us=0)
    if verdict.is_closed:
        assert verdict.reason
        assert verdict.code
        assert not verdict.cut
    elif mode is not Mode.NONE:
        assert feasible(inputs, [group], verdict.cut)
        assert all(set(choice.vector) <= {"a", "b"} for choice in verdict.cut.values())


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


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ([state("x", "a", choice(3, a=1), choice(3, a=2))], "x has versions that do not ascend"),
        ([state("x", "a", choice(3, a=1)), state("x", "a", choice(3, a=1))], "x is named twice"),
        ([state("x", "a", choice(3, b=1))], "x speaks of b, which it does not stem from"),
    ],
)
def test_what_contradicts_itself_closes_every_mode(inputs: list[InputState], reason: str) -> None:
    for mode in Mode:
        verdict = decide(mode, inputs, [], now_us=0)
        assert (verdict.standing, verdict.code, verdict.reason) == (Standing.CLOSED, cut.INCONSISTENT, reason)


def test_times_and_numbers_in_one_group_close_the_gate() -> None:
    timed = Choice(version=1, vector=Vector({"b": Watermark.of_micros(5)}))
    verdict = decide(Mode.GATE, [state("x", "a", choice(1, a=5)), state("y", "b", timed)], [PAIR], now_us=0)
    assert (verdict.standing, verdict.code) == (Standing.CLOSED, "TG-W006")


def test_versions_from_before_something_was_taken_back_are_not_chosen() -> None:
    """A pipeline was rolled back: what its table held at version 4 is gone, though it would agree."""
    x = state("x", "a", choice(3, a=5), choice(4, a=7), choice(5, a=6))
    held = decide(Mode.HOLD_BACK, [x, state("y", "b", choice(7, b=5))], [PAIR], now_us=0)
    assert (held.standing, held.code) == (Standing.CLOSED, cut.APART)
    assert versions(decide(Mode.HOLD_BACK, [x, state("y", "b", choice(7, b=6))], [PAIR], now_us=0)) == {"x": 5, "y": 7}


def test_by_row_the_newest_version_is_read_up_to_the_bound() -> None:
    """Also rows beyond a watermark may be in it then: they are not read."""
    x = state("x", "a", choice(3, a=5), choice(4, a=9, holds_more=True), by_row=True)
    verdict = decide(Mode.HOLD_BACK, [x, state("y", "b", choice(7, b=6))], [PAIR], now_us=0)
    assert (verdict.standing, versions(verdict)) == (Standing.CAPPED, {"x": 4, "y": 7})
    assert verdict.cut["x"].bound == Watermark.of_integer(6)
    assert verdict.vector == vector(a=6, b=6)
    assert verdict.reason == "b is 3 behind a in group pair (tolerance 0)"


def test_by_row_the_bound_never_goes_below_what_the_table_shows() -> None:
    """Its rows are counted already."""
    x = state("x", "a", choice(4, a=9), by_row=True, shown=7)
    for b, closed in ((6, True), (7, False)):
        assert decide(Mode.HOLD_BACK, [x, state("y", "b", choice(7, b=b))], [PAIR], now_us=0).is_closed is closed


def test_by_row_an_input_has_one_event_time() -> None:
    with pytest.raises(ValueError, match="2 root sources"):
        state("x", "ab", by_row=True)


def test_the_reason_has_a_code_and_says_since_when_the_culprit_stands_there() -> None:
    x = state("x", "a", choice(1, at_us=10, a=5), choice(2, at_us=30, a=8))
    y = state("y", "b", choice(1, at_us=5, b=1), choice(2, at_us=20, b=2), choice(3, at_us=25, holds_more=True, b=2))
    late = decide(Mode.GATE, [x, y], [PAIR], now_us=99)
    assert (late.code, late.blocked_by, late.since_us) == (cut.APART, ("b",), 20)
    silent = decide(Mode.GATE, [x, state("y", "b", choice(1, at_us=5))], [PAIR], now_us=99)
    assert (silent.code, silent.blocked_by, silent.since_us) == (cut.NOT_REPORTED, ("b",), 5)
    both = decide(Mode.GATE, [x, state("z", "a", choice(9, at_us=7, a=5))], [], now_us=99)
    assert (both.code, both.blocked_by, both.since_us) == (cut.INPUTS_APART, ("a",), 30)


def test_a_stuck_source_warns_and_pauses_only_where_its_group_says_so() -> None:
    inputs = [state("x", "a", choice(1, a=5)), state("y", "b", choice(1, b=5))]
    warns = Group(name="pair", sources=("a", "b"), stuck_after_us=10)
    heard: dict[str, int | None] = {"a": 100, "b": 50}
    warned = decide(Mode.GATE, inputs, [warns], now_us=100, heard_us=heard)
    assert (warned.standing, warned.stuck) == (Standing.OPEN, ("b",))
    pauses = replace(warns, when_stuck=WhenStuck.PAUSE, stuck_after_us=10_000_000)
    paused = decide(Mode.GATE, inputs, [pauses], now_us=12_500_050, heard_us={**heard, "a": 12_500_000})
    assert (paused.standing, paused.code, paused.blocked_by, paused.since_us) == (
        Standing.CLOSED,
        cut.STUCK,
        ("b",),
        50,
    )
    assert paused.reason == "b has said nothing for 12s, and group pair pauses after 10s"
    beaten = decide(Mode.GATE, inputs, [pauses], now_us=12_500_050, heard_us=dict.fromkeys("ab", 12_500_000))
    assert (beaten.standing, beaten.stuck) == (Standing.OPEN, ())
    assert decide(Mode.NONE, inputs, [pauses], now_us=12_500_050, heard_us=heard).standing is Standing.OPEN


def test_a_stuck_source_is_silent_since_it_was_last_heard() -> None:
    """Also since the first microsecond there is."""
    pauses = Group(name="one", sources=("a",), stuck_after_us=1_000_000, when_stuck=WhenStuck.PAUSE)
    x = state("x", "a", choice(1, a=5))
    for heard_us, silence in ((0, "15s"), (3_000_000, "12s")):
        verdict = decide(Mode.GATE, [x], [pauses], now_us=15_000_000, heard_us={"a": heard_us})
        assert (verdict.since_us, verdict.stuck) == (heard_us, ("a",))
        assert verdict.reason == f"a has said nothing for {silence}, and group one pauses after 1s"


def test_only_groups_with_a_root_of_the_inputs_overlap_them() -> None:
    other = Group(name="other", sources=("c",))
    assert cut.overlapping([PAIR, other], [state("x", "a", choice(1, a=5))]) == [PAIR]


def test_what_was_taken_back_two_versions_ago_is_not_chosen_either() -> None:
    """Nothing before the last version that says less, wherever that is."""
    x = state("x", "ac", choice(1, a=0, c=5), choice(2, a=1, c=1), choice(3, a=2, c=2))
    assert decide(Mode.HOLD_BACK, [x, state("y", "b", choice(1, b=0))], [PAIR], now_us=0).is_closed


def test_by_row_a_version_that_says_what_the_table_shows_may_be_read_and_one_that_says_nothing_not() -> None:
    for known, closed in (({"a": 5}, False), ({"a": 4}, True), ({}, True)):
        x = state("x", "a", choice(1, **known), by_row=True, shown=5)
        assert decide(Mode.HOLD_BACK, [x], [], now_us=0).is_closed is closed


def test_rows_beyond_a_watermark_are_beyond_it_since_the_last_of_them_came() -> None:
    inputs = [
        state(name, root, choice(1, at_us=at, holds_more=True, **{root: 5}))
        for name, root, at in (("x", "a", 3), ("y", "b", 7))
    ]
    held = decide(Mode.HOLD_BACK, inputs, [PAIR], now_us=9)
    assert (held.code, held.blocked_by, held.since_us) == (cut.BEYOND, ("a", "b"), 7)
