"""Rows on standard output: exact JSON, CSV, or a table for people."""

from __future__ import annotations

import base64
import csv
import json
import math
import sys
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from datetime import time as wall_time
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from tidegate import errors
from tidegate.clock import to_micros
from tidegate.progress.watermarks import format_micros

if TYPE_CHECKING:
    from tidegate.cli.output import Shell
    from tidegate.service import Reading

SHOWN_ROWS: Final = 50
_BATCH_ROWS: Final = 10_000


class Format(Enum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def chosen(asked: str | None, *, as_json: bool) -> Format:
    """The format that was asked for; a table without one."""
    if asked is None:
        return Format.JSON if as_json else Format.TABLE
    try:
        return Format(asked.lower())
    except ValueError:
        known = ", ".join(one.value for one in Format)
        raise errors.ConfigError(where="--format", what=f"{asked!r} is not one of {known}") from None


def limit_of(wanted: Format, asked: int | None) -> int | None:
    """How many rows to read: all, but a table for people shows only the first; one more tells that there are more."""
    return SHOWN_ROWS + 1 if asked is None and wanted is Format.TABLE else asked


def write(shell: Shell, reading: Reading, wanted: Format, *, asked_limit: int | None) -> None:
    """Print the rows."""
    match wanted:
        case Format.JSON:
            _write_json(reading)
        case Format.CSV:
            _write_csv(reading)
        case Format.TABLE:
            _show(shell, reading, asked_limit)


def plain(value: Any) -> Any:
    """The value as JSON has it, exactly: times are UTC text, decimals and what JSON has no number for are text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(Decimal(value))
        case datetime():
            return format_micros(to_micros(value)) if value.tzinfo else value.isoformat()
        case date() | wall_time():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case timedelta():
            return value / timedelta(seconds=1)
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {str(plain(key)): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            return str(value)


def rows_of(reading: Reading) -> Iterator[dict[str, Any]]:
    """The rows as JSON has them, a batch at a time."""
    for batch in reading.rows.to_batches(max_chunksize=_BATCH_ROWS):
        for row in batch.to_pylist(maps_as_pydicts="lossy"):
            yield {name: plain(value) for name, value in row.items()}


def _write_json(reading: Reading) -> None:
    out = sys.stdout
    out.write("[")
    for place, row in enumerate(rows_of(reading)):
        out.write(",\n " if place else "\n ")
        out.write(json.dumps(row, ensure_ascii=False, allow_nan=False))
    out.write("\n]\n" if reading.rows.num_rows else "]\n")


def _write_csv(reading: Reading) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(reading.rows.column_names)
    for row in rows_of(reading):
        writer.writerow([_cell(value) for value in row.values()])


def _show(shell: Shell, reading: Reading, asked_limit: int | None) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in reading.rows.schema:
        table.add_column(column.name, justify="right" if _is_number(str(column.type)) else "left", overflow="fold")
    most = reading.rows.num_rows if asked_limit is not None else SHOWN_ROWS
    for place, row in enumerate(rows_of(reading)):
        if place >= most:
            break
        table.add_row(*["–" if value is None else _cell(value) for value in row.values()])
    shell.show(table)
    if reading.rows.num_rows > most:
        total = "" if reading.total is None else f" of {reading.total:,}"
        shell.note(f"the first {most}{total} rows; --limit N shows more, --format json or csv all of them")


def _cell(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _is_number(kind: str) -> bool:
    return kind.startswith(("int", "uint", "float", "double", "decimal", "halffloat"))
