"""Which versions of an input a table could read, and what each of them contains. Light.

Of a lake table the log tells, of an external one the log of its loader's advances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tidegate import errors
from tidegate.lake.log import Kind, Metadata, Version, entry_path
from tidegate.progress.cut import Choice, InputState, Mode, Problem
from tidegate.progress.watermarks import Vector, Watermark
from tidegate.sources.advances import SourceDocument
from tidegate.tables.graph import Input

if TYPE_CHECKING:
    from tidegate.lake.table import LakeTable

Lake = Callable[[str], "LakeTable"]

#: Commits after which readers see the same rows under the same claims.
_NO_CHANGE: Final = frozenset({Kind.CLAIM, Kind.COMPACT, Kind.SCHEMA})

WENT_BACK = "TG-T004"  #: an input is at a version below the one that the table has read before

#: In the `extra` of a table's commits: rows beyond its vector may be in it.
HOLDS_MORE: Final = "holds_more"


def of_lake(
    one: Input,
    table: LakeTable,
    *,
    mode: Mode,
    frontier: int | None,
    advanced: bool,
    retained: bool = False,
    whole_from: int | None = None,
) -> InputState:
    """The versions of a lake table from the frontier on; without one, all of them or the newest, as the mode needs.

    `advanced` says that a loader raises the watermark of its source: then rows come before the word
    about them, and of versions with equal vectors only the first holds nothing beyond. `retained`
    says that what retention takes away is a change. `whole_from` is the oldest version whose files
    are sure to be there; where nobody knows it, a first refresh starts at the newest prune.
    """
    # To who has read nothing yet a prune is a version like any other: below it files may be gone already.
    retained = retained or frontier is None
    try:
        head = table.head()
        if head is None:
            return _nothing(one)
        _check_ours(table, head)
        if frontier is not None and head.version < frontier:
            what = f"{one.name} is at version {head.version}, below version {frontier} that was read before"
            return _broken(one, WENT_BACK, what)
        versions = _versions(table, head, mode, frontier, retained)
        if whole_from is None:
            whole_from = _newest_prune(table) if frontier is None and mode is Mode.HOLD_BACK else 0
    except errors.LakeError as failed:
        return _broken(one, failed.code, failed.message)
    choices = _choices(versions, one, advanced=advanced, retained=retained)
    lowest = max(whole_from, frontier or 0)
    return InputState(
        name=one.table, roots=one.roots, choices=tuple(choice for choice in choices if choice.version >= lowest)
    )


def of_external(
    one: Input,
    table: LakeTable,
    document: SourceDocument | None,
    *,
    mode: Mode,
    parts: tuple[str, ...],
    frontier: int | None,
    gone: int | None = None,
) -> InputState:
    """The versions of an external table that an advance speaks of; the newest one in mode none.

    Before the first advance there is its newest version, of which nothing is known.
    """
    bound = () if document is None else bound_versions(document, parts)
    try:
        head = table.head()
        if head is None:
            return _nothing(one)
        if mode is Mode.NONE or not bound:
            return InputState(name=one.table, roots=one.roots, choices=(_as_it_is(head, bound),))
        there = tuple(choice for choice in bound if _is_there(table, choice.version, gone))
    except errors.LakeError as failed:
        return _broken(one, failed.code, failed.message)
    newest = bound[-1]
    if newest not in there:
        said = ", ".join(value.text for value in newest.vector.values())
        what = f"version {newest.version} of {one.name}, which its watermark {said} speaks of, is gone"
        return _broken(one, errors.InputGone.code, what)
    if frontier is not None and newest.version < frontier:
        what = f"{one.name} was advanced at version {newest.version}, below version {frontier} that was read before"
        return _broken(one, WENT_BACK, what)
    later = tuple(choice for choice in there if frontier is None or choice.version >= frontier)
    return InputState(name=one.table, roots=one.roots, choices=later)


def _as_it_is(head: Version, bound: tuple[Choice, ...]) -> Choice:
    """The newest version of an external table, with what is known of it.

    Rows that came after the version that was advanced last are beyond its vector; a table that was
    made anew has none of that version's rows.
    """
    if not bound or head.version < bound[-1].version:
        return Choice(version=head.version, at_us=head.at_us)
    beyond = bound[-1].holds_more or head.version > bound[-1].version
    return Choice(version=head.version, vector=bound[-1].vector, at_us=head.at_us, holds_more=beyond)


def bound_versions(document: SourceDocument, parts: tuple[str, ...]) -> tuple[Choice, ...]:
    """The versions of an external table that were named by advances, ascending, with what each is complete through.

    A version named again for the same value replaces the one before. Of several parts the version is
    that which has the rows of all. One that another part was advanced at, without the least of them
    rising, may hold rows beyond.
    """
    values: dict[str | None, Watermark] = {}
    versions: dict[str | None, int] = {}
    found: list[Choice] = []
    members = parts or (None,)
    for advance in document.log:
        rebinds = values.get(advance.part) == advance.value
        values[advance.part] = advance.value
        if advance.version is not None:
            versions[advance.part] = advance.version
        named = [versions[part] for part in members if part in versions]
        if advance.part not in members or not named:
            continue
        version, vector = max(named), _least(document.source, [values.get(part) for part in members])
        last = found[-1] if found else None
        if last is not None and (last.version, last.vector) == (version, vector):
            continue  # nothing more is known of the same rows
        is_same = last is not None and bool(vector) and last.vector == vector
        while found and (found[-1].version >= version or (rebinds and found[-1].vector == vector)):
            found.pop()
        beyond = is_same and not rebinds
        found.append(Choice(version=version, vector=vector, at_us=advance.at_us, holds_more=beyond))
    return tuple(found)


def _least(source: str, values: Sequence[Watermark | None]) -> Vector:
    """What the source is complete through by its parts; nothing while one of them never spoke."""
    known = [value for value in values if value is not None]
    return Vector({source: min(known)}) if len(known) == len(values) else Vector()


def _versions(table: LakeTable, head: Version, mode: Mode, frontier: int | None, retained: bool) -> list[Version]:
    """What has to be looked at: from before the frontier on, or for who reads the newest, back to the newest change."""
    if frontier is not None:
        return table.versions(frontier - 1)
    if mode is Mode.HOLD_BACK:
        return table.versions()
    version = head
    while version.version > 0 and version.metadata is not None and not _is_change(version.metadata, retained):
        version = table.version(version.version - 1)
    return [version]


def _newest_prune(table: LakeTable) -> int:
    """The version by which readers gave up rows last; 0 where they never did."""
    prunes = (
        entry.version.version
        for entry in table.removals()
        if entry.version.metadata is not None and entry.version.metadata.kind is Kind.PRUNE
    )
    return next(prunes, 0)


def _choices(versions: Iterable[Version], one: Input, *, advanced: bool, retained: bool) -> Iterable[Choice]:
    before: Metadata | None = None
    for version in versions:
        metadata = version.metadata
        if metadata is None:
            continue
        same = before is not None and bool(metadata.vector) and before.vector == metadata.vector
        before = metadata
        if _is_change(metadata, retained):
            yield Choice(
                version=version.version,
                vector=Vector({root: metadata.vector[root] for root in one.roots if root in metadata.vector}),
                holds_more=(advanced and same) or bool(metadata.extra.get(HOLDS_MORE)),
                at_us=version.at_us,
                reader_lo=metadata.reader_lo,
            )


def _is_change(metadata: Metadata, retained: bool) -> bool:
    if metadata.kind is Kind.CREATE:
        return metadata.end is not None or metadata.rows is not None
    if metadata.kind is Kind.PRUNE:
        return retained
    return metadata.kind not in _NO_CHANGE


def _check_ours(table: LakeTable, head: Version) -> None:
    if head.metadata is None:
        raise errors.NotOurs(table=table.name, what=f"version {head.version} was committed by somebody else")


def _is_there(table: LakeTable, version: int, gone: int | None) -> bool:
    return (gone is None or version > gone) and table.storage.has(entry_path(version))


def _nothing(one: Input) -> InputState:
    return InputState(name=one.table, roots=one.roots)


def _broken(one: Input, code: str, text: str) -> InputState:
    return InputState(name=one.table, roots=one.roots, problem=Problem(code=code, text=text))
