"""What a project says about its sources, as values.

Light on purpose: `tidegate status` loads this module, so nothing here may import Spark, NumPy or
PyArrow. The YAML is parsed in `tidegate.project`; here each value checks itself at birth and
raises `ConfigError` with the place it came from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import TypeAlias

from tidegate import errors
from tidegate.progress.event_time import AllIdle
from tidegate.progress.watermarks import ValueKind
from tidegate.quick import dataclass

DEFAULT_MAX_AHEAD = 10_000
DEFAULT_MAX_SKEW_US = 300_000_000


class WatermarkKind(Enum):
    """Where the watermark of a source comes from."""

    EVENT_TIME = "event_time"
    CHECKPOINT = "checkpoint"
    TIMESTAMP = "timestamp"
    INTEGER = "integer"

    @property
    def is_advanced(self) -> bool:
        """Whether a loader raises it with `advance`."""
        return self in (WatermarkKind.TIMESTAMP, WatermarkKind.INTEGER)

    @property
    def value_kind(self) -> ValueKind:
        """Whether it is a time or a number."""
        times = (WatermarkKind.EVENT_TIME, WatermarkKind.TIMESTAMP)
        return ValueKind.TIMESTAMP if self in times else ValueKind.INTEGER


class FileFormat(Enum):
    """How the files of a source are written."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    AVRO = "avro"
    TEXT = "text"

    @property
    def has_lines(self) -> bool:
        """Whether a record is a line, so that a corrupt one can be set aside alone."""
        return self in (FileFormat.JSON, FileFormat.CSV)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """The column that tells when a row happened, and how patient the watermark is with it."""

    column: str
    max_lateness_us: int = 0
    idle_timeout_us: int | None = None
    max_skew_us: int = DEFAULT_MAX_SKEW_US
    all_idle: AllIdle = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How files become rows: always with a declared schema, never by inference."""

    format: FileFormat
    schema: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the declared columns, in order."""
        return tuple(name for name, _ in schema_fields(self.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBase:
    """What every source has. `where` is its place in the project, for messages."""

    name: str
    watermark: WatermarkKind
    event_time: EventTime | None = None
    where: str = "tidegate.yml"

    def check_watermark(self, columns: tuple[str, ...] | None) -> None:
        """Refuse a watermark that the source cannot have; `columns` are those of its rows."""
        if self.watermark is WatermarkKind.EVENT_TIME and self.event_time is None:
            raise self.refused("watermark: event_time needs an `event_time:` column")
        if self.watermark.is_advanced and self.event_time is not None:
            raise self.refused("has an `event_time:` column, so its watermark cannot also be advanced by hand")
        if self.event_time is not None and columns is not None and self.event_time.column not in columns:
            raise self.refused(
                f"event_time: {self.event_time.column} is not a column of its schema ({', '.join(columns)})"
            )

    def refused(self, what: str) -> errors.ConfigError:
        """The error for something this source says that cannot be."""
        return errors.ConfigError(where=self.where, what=f"sources.{self.name} {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedSpec(SourceBase):
    """Files that carry their own checkpoint number in their path, one file a number."""

    path: str
    reading: Reading
    first_checkpoint: int | None = None
    last_checkpoint: int | None = None
    max_ahead: int = DEFAULT_MAX_AHEAD

    def __post_init__(self) -> None:
        self.check_watermark(self.reading.columns)
        if len(NUMBER_FIELD.findall(self.path)) != 1:
            raise self.refused(f"path: {self.path} must hold {{number}} (or {{number:08d}}) exactly once")
        if self.first_checkpoint is not None and self.first_checkpoint < 0:
            raise self.refused("first_checkpoint must not be below 0")
        if None not in (self.first_checkpoint, self.last_checkpoint) and self.last < self.first:
            raise self.refused(f"last_checkpoint {self.last} is below first_checkpoint {self.first}")
        if self.max_ahead < 1:
            raise self.refused("max_ahead must be at least 1")

    @property
    def first(self) -> int:
        """The lowest number that may be read."""
        return 0 if self.first_checkpoint is None else self.first_checkpoint

    @property
    def last(self) -> int:
        """The highest number that may be read, inclusive."""
        return MAX_NUMBER if self.last_checkpoint is None else self.last_checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingSpec(SourceBase):
    """Files that land in a folder under any name; Tidegate cuts the checkpoints."""

    path: str
    reading: Reading

    def __post_init__(self) -> None:
        self.check_watermark(self.reading.columns)
        if self.watermark is WatermarkKind.CHECKPOINT:
            raise self.refused("watermark: checkpoint is only for sources that number their own checkpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSpec(SourceBase):
    """Rows made up by a rule, the same at every reading."""

    parts: int = 1
    rows_per_checkpoint: int = 1000
    checkpoints: int | None = None
    rate_per_s: float | None = None
    start_us: int = 0
    step_us: int = 1_000_000
    seed: int = 0
    skew_us: Mapping[int, int] = field(default_factory=dict)
    disorder_us: int = 0
    silent: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.check_watermark(GENERATED_COLUMNS)
        if self.parts < 1 or self.rows_per_checkpoint < self.parts:
            raise self.refused("needs at least one part, and at least as many rows_per_checkpoint as parts")
        if self.checkpoints is None and self.rate_per_s is None:
            raise self.refused("needs `checkpoints:` (how many there are) or `rate:` (how fast they come)")
        if self.rate_per_s is not None and self.rate_per_s <= 0:
            raise self.refused("rate must be above 0")
        if self.step_us < 1:
            raise self.refused("step must be above 0")
        for key, values in (("skew", self.skew_us), ("silent", self.silent)):
            for part in values:
                if not 0 <= part < self.parts:
                    raise self.refused(f"{key}: there is no part {part} (it has {self.parts}, counted from 0)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalSpec(SourceBase):
    """A table that somebody else loads, and says how far. No pipeline reads it."""

    table: str
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.watermark.is_advanced:
            raise self.refused("watermark must be timestamp or integer: somebody else says how far it is")
        if len(set(self.parts)) != len(self.parts):
            raise self.refused("parts are named twice")


SourceSpec: TypeAlias = NumberedSpec | LandingSpec | GeneratorSpec | ExternalSpec

NUMBER_FIELD = re.compile(r"\{number(?::0(\d+)d)?\}")
MAX_NUMBER = 2**62
GENERATED_COLUMNS = ("id", "part", "at", "user", "amount")
GENERATED_SCHEMA = "id BIGINT, part INT, at TIMESTAMP, user STRING, amount DOUBLE"

_FIELD = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`:<(]+))\s*:?\s*(.+?)\s*\Z", re.DOTALL)


def schema_fields(schema: str) -> tuple[tuple[str, str], ...]:
    """The (name, type) pairs of a schema like `id BIGINT, at TIMESTAMP`; ValueError when it is none."""
    return tuple(_parse_field(text) for text in split_top_level(schema))


def _parse_field(text: str) -> tuple[str, str]:
    found = _FIELD.match(text)
    if found is None:
        raise ValueError(f"{text.strip()!r} is not a column: write a name and a type, as in `id BIGINT`")
    quoted, plain, kind = found.groups()
    return (quoted.replace("``", "`") if quoted is not None else plain, kind)


def split_top_level(schema: str) -> list[str]:
    """The text between commas that are in no bracket and no quotes."""
    pieces, depth, current, quoted = [], 0, "", False
    for letter in schema:
        if letter == "`":
            quoted = not quoted
        elif not quoted:
            depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0 and not quoted:
            pieces.append(current)
            current = ""
        else:
            current += letter
    return [*pieces, current]
