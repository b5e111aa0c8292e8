"""What a project says about Spark. Light: `tidegate status` loads it, and never Spark itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tidegate.quick import dataclass

DEFAULT_MASTER = "local[*]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How Spark is started or reached: a `master`, or a Spark Connect server as `remote`."""

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.master is not None and self.remote is not None:
            raise ValueError("spark has a `master` or a `remote`, not both")

    @property
    def is_local(self) -> bool:
        """Whether Spark runs inside one process on this machine."""
        return self.remote is None and (self.master or DEFAULT_MASTER).startswith("local")
