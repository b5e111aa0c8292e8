"""The cut rule: which versions of its inputs a table may be computed from together. Pure."""

from __future__ import annotations

from enum import Enum


class Mode(Enum):
    """How a table treats the groups of its sources."""

    NONE = "none"
    GATE = "gate"
    HOLD_BACK = "hold_back"
