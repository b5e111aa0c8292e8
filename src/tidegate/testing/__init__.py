"""What tests of Tidegate, and of things made for it, stand on: honest stand-ins and contract suites.

The names below are loaded when they are first used: most need neither Spark nor pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.testing.clock import ManualClock
    from tidegate.testing.crash import Hit, Point, Trap, points, trap
    from tidegate.testing.interleaving import Order, Outcome, Stuck, explore, sample
    from tidegate.testing.oracle import Findings, judge, judge_sinks
    from tidegate.testing.sink_contract import SinkContract
    from tidegate.testing.sinks import Place, RecordingSink, Rows
    from tidegate.testing.source_contract import CutSourceContract, NumberingSourceContract
    from tidegate.testing.sources import CRASH, EOF, PAUSE, Crashed, Script, ScriptedSource
    from tidegate.testing.store_contract import StoreContract

_HOMES = {
    "tidegate.testing.clock": ("ManualClock",),
    "tidegate.testing.crash": ("Hit", "Point", "Trap", "points", "trap"),
    "tidegate.testing.interleaving": ("Order", "Outcome", "Stuck", "explore", "sample"),
    "tidegate.testing.oracle": ("Findings", "judge", "judge_sinks"),
    "tidegate.testing.sink_contract": ("SinkContract",),
    "tidegate.testing.sinks": ("Place", "RecordingSink", "Rows"),
    "tidegate.testing.source_contract": ("CutSourceContract", "NumberingSourceContract"),
    "tidegate.testing.sources": ("CRASH", "EOF", "PAUSE", "Crashed", "Script", "ScriptedSource"),
    "tidegate.testing.store_contract": ("StoreContract",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CRASH",
    "EOF",
    "PAUSE",
    "Crashed",
    "CutSourceContract",
    "Findings",
    "Hit",
    "ManualClock",
    "NumberingSourceContract",
    "Order",
    "Outcome",
    "Place",
    "Point",
    "RecordingSink",
    "Rows",
    "Script",
    "ScriptedSource",
    "SinkContract",
    "StoreContract",
    "Stuck",
    "Trap",
    "explore",
    "judge",
    "judge_sinks",
    "points",
    "sample",
    "trap",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
