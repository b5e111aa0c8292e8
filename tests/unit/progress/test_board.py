"""A board of tables says what `decide` says of each of them, whatever moved in between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.progress.test_cut import choice, state
from tidegate.progress.board import Board, Gated
from tidegate.progress.cut import Choice, InputState, Mode, Problem, Standing, decide
from tidegate.progress.groups import AtLeast, Group
from tidegate.progress.watermarks import Vector, Watermark

INPUTS = {"x": "a", "y": "b", "z": "ac", "v": "c"}


def a_watermark(number: int) -> Watermark:
    """An integer; now and then, and wrongly, a time."""
    return Watermark.of_micros(number) if number == 3 else Watermark.of_integer(number)


@st.composite
def a_state(draw: st.DrawFn, name: str) -> InputState:
    first = draw(st.integers(0, 3))
    count = draw(st.integers(0, 3))
    vectors = draw(
        st.lists(
            st.dictionaries(st.sampled_from(INPUTS[name]), st.integers(0, 4).map(a_watermark)).map(Vector),
            min_size=count,
            max_size=count,
        )
    )
    made = state(
        name,
        INPUTS[name],
        *(
            Choice(version=first + at - (draw(st.integers(0, 9)) == 0), vector=one, holds_more=draw(st.booleans()))
            for at, one in enumerate(vectors)
        ),
    )
    is_broken = draw(st.integers(0, 7)) == 0
    return replace(made, problem=Problem(code="TG-K003", text="torn")) if is_broken else made


GROUP = st.builds(
    lambda sources, tolerance, opens, floor: Group(
        name="".join(sorted(sources)),
        sources=tuple(sorted(sources)),
        tolerance=tolerance,
        bootstrap_open=opens,
        at_least=None if floor is None else AtLeast(value=Watermark.of_integer(floor)),
    ),
    st.sets(st.sampled_from("abcd"), min_size=1),
    st.integers(0, 2),
    st.booleans(),
    st.none() | st.none() | st.integers(0, 3),
)
TABLE = st.builds(
    Gated,
    name=st.just("t"),
    mode=st.sampled_from(Mode),
    inputs=st.lists(st.sampled_from(sorted(INPUTS)), min_size=1, max_size=3, unique=True).map(tuple),
    groups=st.lists(GROUP, max_size=2).map(tuple),
    tolerance=st.none() | st.integers(0, 2),
    in_use=st.sets(st.sampled_from(["a", "ab", "bc", "abc"])).map(frozenset),
    frontier=st.dictionaries(st.sampled_from("xy"), st.integers(0, 4)),
)
STATES = st.fixed_dictionaries({name: a_state(name) for name in INPUTS})


@given(st.lists(TABLE, min_size=1, max_size=4), STATES, st.lists(st.one_of(*map(a_state, INPUTS)), max_size=3))
def test_a_board_says_what_each_verdict_says(
    tables: list[Gated], states: dict[str, InputState], moves: list[InputState]
) -> None:
    """From scratch, and after every move; a move tells whose standing is another."""
    named = [
        replace(one, name=f"t{n}", frontier={i: v for i, v in one.frontier.items() if i in one.inputs})
        for n, one in enumerate(tables)
    ]
    board = Board(named, states.values())
    before = board.standings(now_us=0)
    for move in (None, *moves):
        told = () if move is None else board.put(move, now_us=0)
        after = board.standings(now_us=0)
        for table in named:
            verdict = board.verdict(table.name, now_us=0)
            assert verdict.standing is after[table.name]
            assert (table.name in told) is (move is not None and before[table.name] is not after[table.name])
            if not table.frontier:
                known = {**states, **({} if move is None else {move.name: move})}
                assert verdict == decide(
                    table.mode,
                    [known[one] for one in table.inputs],
                    table.groups,
                    now_us=0,
                    tolerance=table.tolerance,
                    in_use=table.in_use,
                )
        before = after
        if move is not None:
            states = {**states, move.name: move}


def test_a_floor_that_moves_with_the_clock_is_asked_anew() -> None:
    """Nothing arrived, and yet the gate closes."""
    group = Group(name="rates", sources=("a",), at_least=AtLeast(now_minus_us=10))
    timed = InputState(
        name="x", roots=frozenset("a"), choices=(Choice(version=1, vector=Vector({"a": Watermark.of_micros(90)})),)
    )
    board = Board([Gated(name="t", mode=Mode.GATE, inputs=("x",), groups=(group,))], [timed])
    standings = [board.standing("t", now_us=now_us) for now_us in (100, 101)]
    assert standings == [Standing.OPEN, Standing.CLOSED]


@pytest.mark.parametrize("value", [0, 5, -5, 2**62])
def test_a_time_and_a_number_never_agree(value: int) -> None:
    """Not where their digits do, nor within a tolerance as wide as any."""
    group = Group(name="pair", sources=("a", "b"), tolerance=2**63)
    number, time = Watermark.of_integer(value), Watermark.of_micros(value)
    states = [
        InputState(name=name, roots=frozenset(name), choices=(Choice(version=1, vector=Vector({name: mark})),))
        for name, mark in (("a", number), ("b", time))
    ]
    board = Board([Gated(name="t", mode=Mode.GATE, inputs=("a", "b"), groups=(group,))], states)
    assert board.standing("t", now_us=0) is board.verdict("t", now_us=0).standing is Standing.CLOSED


def test_a_move_tells_only_whose_standing_is_another() -> None:
    """Of those that read it, and of nobody else."""
    pair = Group(name="pair", sources=("a", "b"), bootstrap_open=False)
    tables = [
        Gated(name="both", mode=Mode.GATE, inputs=("x", "y"), groups=(pair,)),
        Gated(name="one", mode=Mode.GATE, inputs=("x",), groups=(pair,)),
        Gated(name="other", mode=Mode.GATE, inputs=("y",), groups=(pair,)),
    ]
    board = Board(tables, [state("x", "a", choice(1, a=1)), state("y", "b", choice(1, b=1))])
    assert set(board.standings(now_us=0).values()) == {Standing.OPEN}
    assert board.put(state("x", "a", choice(2, a=2)), now_us=0) == ("both",)
    assert board.put(state("x", "a", choice(3, a=3)), now_us=0) == ()
    assert board.put(state("y", "b", choice(2, b=3)), now_us=0) == ("both",)


def test_roots_that_change_need_a_new_board() -> None:
    """The places of the numbers were made for the old ones."""
    board = Board([], [state("x", "a", choice(1, a=1))])
    with pytest.raises(ValueError, match="input x has other root sources"):
        board.put(state("x", "ab", choice(1, a=1)), now_us=0)


@pytest.mark.parametrize(
    ("mode", "frontier", "b", "standing"),
    [
        (Mode.GATE, 2, 2, Standing.OPEN),
        (Mode.GATE, 1, 2, Standing.OPEN),
        (Mode.GATE, 3, 2, Standing.CLOSED),
        (Mode.HOLD_BACK, 1, 1, Standing.CAPPED),
        (Mode.HOLD_BACK, 2, 1, Standing.CLOSED),
    ],
)
def test_a_table_never_goes_below_what_it_shows(mode: Mode, frontier: int, b: int, standing: Standing) -> None:
    """The version that it shows may be read again; none before it, though that would agree."""
    pair = Group(name="pair", sources=("a", "b"))
    table = Gated(name="t", mode=mode, inputs=("x", "y"), groups=(pair,), frontier={"x": frontier})
    board = Board([table], [state("x", "a", choice(1, a=1), choice(2, a=2)), state("y", "b", choice(1, b=b))])
    assert board.standing("t", now_us=0) is board.verdict("t", now_us=0).standing is standing


def test_by_row_a_board_heeds_what_a_table_shows() -> None:
    """It showed rows up to 7, and the input speaks of 5 now."""
    x = state("x", "a", choice(1, a=5), by_row=True, shown=7)
    board = Board([Gated(name="t", mode=Mode.HOLD_BACK, inputs=("x",))], [x])
    assert board.standing("t", now_us=0) is board.verdict("t", now_us=0).standing is Standing.CLOSED


@pytest.mark.parametrize(
    ("x", "z", "standing"), [({}, {}, "open"), ({"a": 1}, {"a": 2}, "closed"), ({}, {"a": 1}, "closed")]
)
def test_inputs_that_share_a_root_say_the_same_of_it_or_nothing(
    x: dict[str, int], z: dict[str, int], standing: str
) -> None:
    """A distance of one is one too many; and what neither of them knows, they agree on."""
    board = Board(
        [Gated(name="t", mode=Mode.GATE, inputs=("x", "z"))],
        [state("x", "a", choice(1, **x)), state("z", "a", choice(1, **z))],
    )
    assert board.standing("t", now_us=0) is board.verdict("t", now_us=0).standing is Standing(standing)


def test_an_input_that_is_named_twice_closes() -> None:
    """As the verdict says: the table contradicts itself."""
    board = Board([Gated(name="t", mode=Mode.GATE, inputs=("x", "x"))], [state("x", "a", choice(1, a=1))])
    assert board.standing("t", now_us=0) is board.verdict("t", now_us=0).standing is Standing.CLOSED


def test_holding_back_closes_where_older_versions_count_in_another_kind() -> None:
    """Which of them say less than the newest cannot be told."""
    older, newest = (Choice(version=n, vector=Vector({"a": a_watermark(at)})) for n, at in ((1, 0), (2, 3)))
    board = Board([Gated(name="t", mode=Mode.HOLD_BACK, inputs=("x",))], [state("x", "a", older, newest)])
    assert board.standing("t", now_us=0) is board.verdict("t", now_us=0).standing is Standing.CLOSED
