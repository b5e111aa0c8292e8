"""What is kept of event-time progress: the parts of one source, and the value they have together. Light."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple

from tidegate.quick import dataclass


class PartitionId(NamedTuple):
    """One partition of one source, both by number."""

    source_id: int
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartState:
    """How far one part has come. `since_us`: since when it holds its value or, when idle, since when it is silent."""

    watermark_us: int | None = None
    idle: bool = False
    since_us: int | None = None

    def to_json(self) -> dict[str, Any]:
        """What is known of it."""
        return {
            **({} if self.watermark_us is None else {"watermark_us": self.watermark_us}),
            **({"idle": True} if self.idle else {}),
            **({} if self.since_us is None else {"since_us": self.since_us}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> PartState:
        """The part that `to_json` wrote."""
        return cls(
            watermark_us=document.get("watermark_us"),
            idle=document.get("idle", False),
            since_us=document.get("since_us"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerState:
    """All parts of a source, and the highest value that they ever had together. An event below that is late."""

    parts: Mapping[str, PartState] = field(default_factory=dict)
    combined_us: int | None = None

    def to_json(self) -> dict[str, Any]:
        """For documents."""
        return {"parts": {name: part.to_json() for name, part in self.parts.items()}, "combined_us": self.combined_us}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TrackerState:
        """The state that `to_json` wrote."""
        return cls(
            parts={name: PartState.from_json(part) for name, part in document["parts"].items()},
            combined_us=document["combined_us"],
        )
