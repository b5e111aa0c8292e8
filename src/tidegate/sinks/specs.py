"""What a project says about its sinks, as values. Light: `tidegate status` loads this module."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from tidegate import errors
from tidegate.quick import dataclass


class Visibility(Enum):
    """When the rows of a delivery can be seen, and in which order deliveries are made."""

    PUBLISHING = "publishing"
    APPEND = "append"
    ORDERED = "ordered"


class From(Enum):
    """Where a sink that joins a running pipeline starts; a number is the third choice."""

    START = "start"
    NOW = "now"


StartAt: TypeAlias = From | int


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkBase:
    """What every sink has. `where` is its place in the project, for messages."""

    name: str
    required: bool = True
    max_lag_us: int | None = None
    from_: StartAt = From.START
    where: str = "tidegate.yml"

    def refused(self, what: str) -> errors.ConfigError:
        """The error for something this sink says that cannot be."""
        return errors.ConfigError(where=self.where, what=f"sink {self.name} {what}")

    def check(self) -> None:
        """Refuse what no sink can be."""
        if not self.name:
            raise errors.ConfigError(where=self.where, what="a sink has no name")
        if isinstance(self.from_, int) and self.from_ < 0:
            raise self.refused("from: a checkpoint number is not below 0")
        if self.max_lag_us is not None and self.max_lag_us <= 0:
            raise self.refused("max_lag must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSinkSpec(SinkBase):
    """A lake table of its own, readable by everybody, complete at every version."""

    table: str

    def __post_init__(self) -> None:
        self.check()
        if not self.table:
            raise self.refused("needs a `table:`")

    @property
    def type(self) -> str:
        return "delta"

    @property
    def visibility(self) -> Visibility:
        return Visibility.PUBLISHING


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSinkSpec(SinkBase):
    """A folder of Parquet files with a manifest of what counts."""

    path: str

    def __post_init__(self) -> None:
        self.check()
        if not self.path:
            raise self.refused("needs a `path:`")

    @property
    def type(self) -> str:
        return "parquet"

    @property
    def visibility(self) -> Visibility:
        return Visibility.APPEND


SinkSpec: TypeAlias = DeltaSinkSpec | ParquetSinkSpec
