"""What a table's file says, as a value: options in the leading comment, one query below."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import Any, Final

from tidegate import errors
from tidegate.progress.cut import Mode
from tidegate.progress.groups import Tolerance, parse_tolerance
from tidegate.quick import dataclass
from tidegate.tables.schedules import Schedule, parse_schedule

_OPTION = re.compile(r"--\s*([A-Za-z_][A-Za-z0-9_-]*)\s*:\s*(\S.*)?$")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REMARK = re.compile(r"\s{2,}|\s+#")  # `-- gating: gate     why`: the value ends where a wider gap begins


class Refresh(Enum):
    """How the contents of a table are brought up to a cut."""

    AUTO = "auto"
    FULL = "full"


class Over(Enum):
    """What the retention of an input does to the table."""

    HISTORY = "history"
    RETAINED = "retained"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQuery:
    """A query of Spark's dialect. `line` is where it starts in its file, from 1."""

    text: str
    line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonQuery:
    """A function from DataFrames to a DataFrame; its parameters name the inputs."""

    function: Callable[..., Any] = field(compare=False)
    inputs: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """A maintained table as its owner declared it. What is left out is None or the default."""

    name: str
    query: SqlQuery | PythonQuery
    file: str
    gating: Mode | None = None
    tolerance: Tolerance | None = None
    schedule: Schedule = field(default_factory=Schedule)
    refresh: Refresh = Refresh.AUTO
    over: Over = Over.HISTORY

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            what = f"{self.name!r} cannot be the name of a table: use letters, digits and _, and start with a letter"
            raise errors.ConfigError(where=self.file, what=what)

    @property
    def definition(self) -> str:
        """A fingerprint of the query: contents made under another one are not this table's."""
        text = self.query.text if isinstance(self.query, SqlQuery) else self.query.source
        return hashlib.blake2b(text.strip().encode(), digest_size=16).hexdigest()


def parse_sql(name: str, text: str, file: str) -> TableSpec:
    """The table of one `tables/<name>.sql`; ConfigError with file and line where it is wrong."""
    options: dict[str, Any] = {}
    lines = text.splitlines()
    start = 0
    for start, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("--"):
            break
        match = _OPTION.match(line.strip())
        if match:
            key, value = _read_option(match, f"{file}:{start + 1}")
            if key in options:
                raise errors.ConfigError(where=f"{file}:{start + 1}", what=f"{key} is given twice")
            options[key] = value
    else:
        raise errors.ConfigError(where=f"{file}:{len(lines) or 1}", what=f"table {name} has no query")
    body = "\n".join(lines[start:])
    return TableSpec(name=name, query=SqlQuery(text=body, line=start + 1), file=file, **options)


def from_function(function: Callable[..., Any], file: str, options: Mapping[str, str], name: str = "") -> TableSpec:
    """The table that a Python function makes of the DataFrames its parameters name."""
    values = {key: parse_option(key, str(value), file) for key, value in options.items()}
    query = PythonQuery(
        function=function, inputs=tuple(inspect.signature(function).parameters), source=_source_of(function)
    )
    return TableSpec(name=name or function.__name__, query=query, file=file, **values)


def _source_of(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return f"{function.__module__}.{function.__qualname__}"


def _read_option(match: re.Match[str], where: str) -> tuple[str, object]:
    key = match.group(1)
    value = _REMARK.split(match.group(2) or "", maxsplit=1)[0].strip()
    return key, parse_option(key, value, where)


def parse_option(key: str, value: str, where: str) -> Any:
    """The value of one option of a table; ConfigError names the place and the nearest right option."""
    parse = _OPTIONS.get(key)
    if parse is None:
        raise errors.ConfigError(where=where, what=_unknown_option(key))
    try:
        return parse(value)
    except ValueError as exc:
        raise errors.ConfigError(where=where, what=f"{key}: {exc}") from None


def _unknown_option(key: str) -> str:
    near = difflib.get_close_matches(key, _OPTIONS, n=1)
    guess = (
        f"did you mean {near[0]}?" if near else f"the options are {', '.join(_OPTIONS)}; write prose without a colon"
    )
    return f"{key} is not an option of a table; {guess}"


def _choice(kind: type[Enum]) -> Callable[[str], Enum]:
    def parse(value: str) -> Enum:
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"{value!r} is not one of {', '.join(str(one.value) for one in kind)}") from None

    return parse


def _parse_refresh(value: str) -> Refresh:
    if value == "incremental":
        raise ValueError("incremental is strict, and this version computes every table in full; use auto or full")
    return Refresh(_choice(Refresh)(value))


_OPTIONS: Final[dict[str, Callable[[str], object]]] = {
    "gating": _choice(Mode),
    "tolerance": parse_tolerance,
    "schedule": parse_schedule,
    "refresh": _parse_refresh,
    "over": _choice(Over),
}
