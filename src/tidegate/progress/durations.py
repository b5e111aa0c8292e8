"""Durations and sizes as people write them: `30s`, `64MiB`; inside they are microseconds and bytes."""

from __future__ import annotations

import re
from typing import Final

MICROS: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
BYTES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

_WRITTEN: Final = re.compile(r"(\d+)(?:\.(\d+))?\s*([A-Za-z]+)")


def parse_duration(text: str) -> int:
    """Microseconds. `1h30m` is a sum; a bare number is refused, except `0`."""
    return _parsed(text, MICROS, what="duration", example="500ms, 30s, 5m, 2h or 30d")


def parse_size(text: str) -> int:
    """Bytes. `1.5GiB` is fine; a bare number is refused, except `0`."""
    return _parsed(text, BYTES, what="size", example="64KiB, 8MiB or 1GiB")


def format_duration(micros: int) -> str:
    """The shortest sum of units that says exactly this: `10m`, `1h30m`, `0s`."""
    return _formatted(micros, MICROS, zero="0s")


def format_size(size_bytes: int) -> str:
    """The largest unit that says exactly this: `64MiB`, `1536B`."""
    unit = next(unit for unit in reversed(BYTES) if size_bytes % BYTES[unit] == 0 and (size_bytes or unit == "B"))
    return f"{size_bytes // BYTES[unit]}{unit}"


def _parsed(text: str, units: dict[str, int], *, what: str, example: str) -> int:
    written = text.strip()
    if written == "0":
        return 0
    total, at = 0, 0
    while match := _WRITTEN.match(written, at):
        whole, fraction, unit = match.groups()
        if unit not in units:
            break
        total += _scaled(whole, fraction or "", units[unit], text)
        at = match.end()
    if at == 0 or at < len(written):
        raise ValueError(f"{text!r} is not a {what}; write {example}")
    return total


def _scaled(whole: str, fraction: str, unit: int, text: str) -> int:
    scale: int = 10 ** len(fraction)
    amount, rest = divmod(int(whole + fraction) * unit, scale)
    if rest:
        raise ValueError(f"{text!r} is finer than can be kept")
    return amount


def _formatted(amount: int, units: dict[str, int], *, zero: str) -> str:
    sign, left, parts = "-" if amount < 0 else "", abs(amount), ""
    for unit in reversed(units):
        count, left = divmod(left, units[unit])
        parts += f"{count}{unit}" if count else ""
    return sign + parts if parts else zero
