"""Values with a syntax of their own: rates, silences, starts, tolerances and lower bounds."""

from __future__ import annotations

import re
from typing import Final

from tidegate.progress.durations import MICROS, parse_duration
from tidegate.progress.groups import AtLeast
from tidegate.progress.watermarks import parse_watermark
from tidegate.sinks.specs import From, StartAt

_WHOLE: Final = re.compile(r"[0-9][0-9_]*")
_RATE: Final = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*/\s*(ms|s|m|h|d)")
_SILENCE: Final = re.compile(r"after\s+([0-9][0-9_]*)")
_NOW: Final = re.compile(r"now(?:\s*-\s*(\S.*))?")


def parse_rate(text: str) -> float:
    """Rows a second, from `500/s` or `30/m`."""
    found = _RATE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise ValueError
    return float(found[1]) * MICROS["s"] / MICROS[found[2]]


def parse_silence(text: str) -> int:
    """The number of checkpoints after which a part says nothing more, from `after 30`."""
    found = _SILENCE.fullmatch(text.strip())
    if found is None:
        raise ValueError
    return int(found[1])


def parse_start_at(text: str) -> StartAt:
    """`start`, `now`, or a checkpoint number."""
    if text not in {start.value for start in From} and not _WHOLE.fullmatch(text):
        raise ValueError
    return int(text) if _WHOLE.fullmatch(text) else From(text)


def parse_at_least(text: str) -> AtLeast:
    """`now`, `now - 1h`, a time with its zone, or a whole number."""
    found = _NOW.fullmatch(text.strip())
    if found is None:
        return AtLeast(value=parse_watermark(text.strip()), now_minus_us=None)
    return AtLeast(value=None, now_minus_us=parse_duration(found[1]) if found[1] else 0)
