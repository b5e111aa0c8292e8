"""What a project says about its pipelines, as values. Light: `tidegate status` loads this module."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from tidegate import errors
from tidegate.progress.policies import CommitPolicy
from tidegate.progress.retention import Retention
from tidegate.progress.retries import RetryBudget
from tidegate.quick import dataclass
from tidegate.sinks.specs import From, SinkSpec, StartAt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Transform: TypeAlias = "Callable[[DataFrame], DataFrame]"

DEAD_SUFFIX = "__dead"
LATE_SUFFIX = "__late"


class PipelineMode(Enum):
    """How many batches may be under way."""

    CONCURRENT = "concurrent"
    SEQUENTIAL = "sequential"


class Late(Enum):
    """What becomes of a row that comes after the watermark of its plan."""

    KEEP = "keep"
    DROP = "drop"
    SIDE = "side"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """How large a batch may grow, and how many may be under way."""

    max_events: int | None = None
    max_bytes: int | None = None
    max_us: int | None = None
    max_inflight: int = 2
    respect_source_tx: bool = True

    def __post_init__(self) -> None:
        if self.max_inflight < 1:
            raise ValueError("max_inflight must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What is retained, how often that is looked at, and how long readers get to finish."""

    keep: Retention = field(default_factory=Retention)
    interval_us: int = 10_000_000
    delay_us: int = 120_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformRef:
    """Where a transform is written, and how to get it. `load` runs the user's file, so it is called late.

    `fingerprint` changes when the text of the transform's file does.
    """

    text: str
    load: Callable[[], Transform] = field(compare=False, repr=False)
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec:
    """A pipeline as its owner declared it."""

    name: str
    source: str
    sinks: tuple[SinkSpec, ...]
    transform: TransformRef | None = None
    mode: PipelineMode = PipelineMode.CONCURRENT
    from_: StartAt = From.START
    batch: Batching = field(default_factory=Batching)
    policy: CommitPolicy = field(default_factory=CommitPolicy.required)
    retry: RetryBudget = field(default_factory=RetryBudget)
    publish_every_us: int = 250_000
    retention: Keeping = field(default_factory=Keeping)
    late: Late = Late.KEEP
    where: str = "tidegate.yml"

    def __post_init__(self) -> None:
        if not self.sinks:
            raise self.refused("has no sinks")
        names = [sink.name for sink in self.sinks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise self.refused(f"has two sinks named {twice[0]}")
        problem = self.policy.problem({sink.name: sink.required for sink in self.sinks})
        if problem:
            raise self.refused(problem)

    @property
    def max_inflight(self) -> int:
        """How many batches may be under way: one when sequential."""
        return 1 if self.mode is PipelineMode.SEQUENTIAL else self.batch.max_inflight

    @property
    def max_batch_checkpoints(self) -> int | None:
        """How many checkpoints a batch may hold so that retention steps finely; None: no bound from it."""
        kept = self.retention.keep.checkpoints
        return None if kept is None else max(1, kept // 16)

    @property
    def main_sink(self) -> SinkSpec:
        """The sink whose mark is the pipeline's own: the first delta one, else the first required, else the first."""
        delta = (sink for sink in self.sinks if sink.type == "delta")
        required = (sink for sink in self.sinks if sink.required)
        return next(delta, None) or next(required, None) or self.sinks[0]

    @property
    def definition(self) -> str:
        """A fingerprint of what makes the rows: the source and the transform."""
        text = f"{self.source}\n{self.transform.fingerprint if self.transform else ''}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def refused(self, what: str) -> errors.ConfigError:
        """The error for something this pipeline says that cannot be."""
        return errors.ConfigError(where=self.where, what=f"pipelines.{self.name} {what}")
