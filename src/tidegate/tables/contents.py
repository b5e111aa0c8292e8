"""What a refresh shows, as values: what its commit says, whether there is anything to compute, what may go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from tidegate.lake.log import Entry, Kind, Metadata
from tidegate.progress.cut import Mode, Verdict
from tidegate.tables.inputs import HOLDS_MORE
from tidegate.tables.judge import HOW, IN_USE, READER_LO, REFRESHED_US, Facts, holds_more

#: A table of ours has one epoch: it is made again, never rolled back.
EPOCH = 1


class How(Enum):
    """What a refresh really did."""

    FULL = "full"  #: the query was computed over the whole cut
    UNCHANGED = "unchanged"  #: no input has other rows than before: only what may be said of them moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The contents of a refresh: their rows and schema."""

    rows: int
    schema_fp: str


def versions_of(verdict: Verdict) -> dict[str, int]:
    """The version of each lake table that is read."""
    return {name: choice.version for name, choice in verdict.cut.items()}


def metadata_of(facts: Facts, verdict: Verdict, *, token: int, how: How, made: Made) -> Metadata:
    """What the commit of the refresh says: contents and claim in one."""
    name = facts.spec.name
    before = () if facts.metadata is None else facts.metadata.extra.get(IN_USE, ())
    gated = [group for group in verdict.effective if group not in verdict.ungated]
    reader_lo = {table: one.reader_lo for table, one in verdict.cut.items() if one.reader_lo is not None}
    return Metadata(
        kind=Kind.REFRESH,
        table=name,
        owner=name,
        epoch=EPOCH,
        token=token,
        vector=verdict.vector,
        frontier=versions_of(verdict),
        effective=verdict.effective,
        ungated=bool(verdict.ungated),
        definition=facts.spec.definition,
        rows=made.rows,
        schema_fp=made.schema_fp,
        extra={
            IN_USE: sorted({*before, *gated}),
            READER_LO: reader_lo,
            REFRESHED_US: facts.now_us,
            HOW: how.value,
            HOLDS_MORE: holds_more(verdict),
        },
    )


def kept_from(facts: Facts) -> dict[str, int]:
    """The oldest versions that a first refresh may still read: who waits for older ones to agree needs them.

    Once there are contents, their frontier says so; who reads the newest versions needs no others.
    """
    if facts.node.mode is not Mode.HOLD_BACK or facts.metadata is not None:
        return {}
    return {one.name: one.choices[0].version for one in facts.inputs if one.choices}


def rows_moved(entries: Iterable[Entry]) -> bool:
    """Whether readers see other rows after these commits than before them."""
    return any(entry.added or entry.removed for entry in entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """The files that no reader needs any more, and the oldest version that is still whole without them."""

    readable_from: int
    paths: tuple[str, ...] = ()


def superseded(removals: Iterable[Entry], *, readable_from: int, needed_from: int | None, before_us: int) -> Superseded:
    """What may be deleted of a table whose refreshes replace all of its files.

    `removals` are the commits that took files away, newest first. Those of version v are needed by
    readers of the versions below v: they stay while one of those is needed, and until `before_us`.
    """
    paths: list[str] = []
    lowest = readable_from
    for entry in removals:
        version = entry.version.version
        if version <= readable_from:
            break
        is_needed = needed_from is not None and needed_from < version
        if not is_needed and entry.version.at_us <= before_us:
            lowest = max(lowest, version)
            paths += entry.removed
    return Superseded(readable_from=lowest, paths=tuple(paths))


def is_same_place(frontier: Mapping[str, int], cut: Mapping[str, int]) -> bool:
    """Whether both name the same lake tables, so that the commits in between tell what is new."""
    return frontier.keys() == cut.keys()
