"""Every event that a run tells of: its name, how loud it is, and its facts. Logs and progress bars hear them.

Core code tells an event by its name, with facts as keys; a test fails when it tells one that is not here.
"""

from __future__ import annotations

import logging
from typing import Final

from tidegate.quick import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One kind of event."""

    name: str
    what: str
    facts: tuple[str, ...]
    level: int = logging.INFO


def _events(*events: Event) -> dict[str, Event]:
    return {event.name: event for event in events}


EVENTS: Final = _events(
    Event(
        name="pipeline_started",
        what="A runner has the lease of a pipeline, has finished what its last one left, and begins.",
        facts=("pipeline", "end", "open_plans"),
    ),
    Event(
        name="pipeline_failed",
        what="A pipeline cannot go on until somebody does what the hint says; the others of the run do.",
        facts=("pipeline", "code", "message", "hint"),
        level=logging.ERROR,
    ),
    Event(
        name="pipeline_skipped",
        what="A pipeline is paused or stopped, and is left alone.",
        facts=("pipeline", "state"),
        level=logging.WARNING,
    ),
    Event(
        name="waiting_for_lease",
        what="Another runner, of which nobody knows whether it lives, holds the lease; it is waited for.",
        facts=("name", "owner"),
        level=logging.WARNING,
    ),
    Event(
        name="batch_planned",
        what="A run of checkpoints is planned, and the plan is stored.",
        facts=("pipeline", "first", "last"),
        level=logging.DEBUG,
    ),
    Event(
        name="batch_delivered",
        what="A sink has a batch durably; its receipt is stored.",
        facts=("pipeline", "first", "last", "sink", "rows"),
        level=logging.DEBUG,
    ),
    Event(
        name="batch_failed",
        what="A sink did not take a batch, or the transform failed on it; it is tried again while its budget lasts.",
        facts=("pipeline", "first", "last", "sink", "code", "message"),
        level=logging.ERROR,
    ),
    Event(
        name="checkpoint_committed",
        what="The unbroken mark rose: all below `end` is delivered as the commit policy asks.",
        facts=("pipeline", "end"),
    ),
    Event(
        name="published",
        what="Readers of a sink see all below `end`, in this version.",
        facts=("pipeline", "sink", "end", "version"),
        level=logging.DEBUG,
    ),
    Event(
        name="publish_failed",
        what="A sink could not show what it has; it is tried again.",
        facts=("pipeline", "sink", "message"),
        level=logging.ERROR,
    ),
    Event(
        name="source_unreachable",
        what="A source does not answer; it is asked again.",
        facts=("pipeline", "code", "message"),
        level=logging.ERROR,
    ),
    Event(
        name="source_throttled",
        what="A source is `max_drift` ahead of others of a group, and plans nothing until they have caught up.",
        facts=("pipeline", "source", "waits_for", "reason"),
    ),
    Event(
        name="pruned",
        what="What readers gave up is deleted below `end`.",
        facts=("pipeline", "end", "files"),
    ),
    Event(
        name="retention_failed",
        what="Retention could not do its step; the next step does it.",
        facts=("pipeline", "message"),
        level=logging.ERROR,
    ),
    Event(
        name="pipeline_finished",
        what="A runner gave its lease back.",
        facts=("pipeline", "phase", "reason"),
    ),
    Event(
        name="table_waits",
        what="The gate of a table is closed, or another runner has it.",
        facts=("table", "reason", "blocked_by"),
    ),
    Event(
        name="table_refreshed",
        what="A table shows a new cut. `mode` is what really ran.",
        facts=("table", "mode", "version", "rows"),
    ),
    Event(
        name="table_failed",
        what="The refresh of a table failed; what it showed before, it goes on showing.",
        facts=("table", "code", "message"),
        level=logging.ERROR,
    ),
)
