"""What loaders said: "this source is complete through W". A log in the ledger, one document a source.

    sources/<name>/watermark     SourceDocument

A value only rises, for each part on its own. An equal one is a heartbeat: nothing changes but when the
loader was last heard. Light: `tidegate status` and `tidegate advance` load this module.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tidegate import errors
from tidegate.clock import to_micros
from tidegate.ledger.contract import Store
from tidegate.ledger.formats import decoded
from tidegate.progress.watermarks import ValueKind, Watermark
from tidegate.quick import dataclass

#: So many entries are kept. Then the older half is thinned to every second one of each part: what is left
#: out is only a version that no table can be cut at any more.
MAX_LOG = 512

_FORMAT = 1


def key(source: str) -> str:
    return f"sources/{source}/watermark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """One raise of a source's watermark.

    `version` is the version of an external table it speaks of, `ends` how far the parts of a source
    that a pipeline reads reached at that moment (half-open).
    """

    seq: int
    value: Watermark
    at_us: int
    by: str
    part: str | None = None
    version: int | None = None
    ends: Mapping[str, int] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        told = {"part": self.part, "version": self.version, "ends": None if self.ends is None else dict(self.ends)}
        return {
            **self.extra,
            "seq": self.seq,
            "value": self.value.to_json(),
            "at_us": self.at_us,
            "by": self.by,
            **{name: value for name, value in told.items() if value is not None},
        }

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Advance:
        known = {name: read[name] for name in ("part", "version", "ends") if name in read}
        extra = {name: value for name, value in read.items() if name not in _ADVANCE_FIELDS}
        value = Watermark.from_json(read["value"])
        return cls(seq=read["seq"], value=value, at_us=read["at_us"], by=read["by"], **known, extra=extra)


_ADVANCE_FIELDS = frozenset(("seq", "value", "at_us", "by", "part", "version", "ends"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """All that is remembered of a source's watermark: the log, oldest first, and when it was last heard of."""

    source: str
    kind: ValueKind
    log: tuple[Advance, ...] = ()
    heard_at_us: int = 0
    heard_by: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def newest(self, part: str | None = None) -> Advance | None:
        """The last advance of the part: its highest value."""
        return next((advance for advance in reversed(self.log) if advance.part == part), None)

    def to_body(self) -> bytes:
        document = {
            **self.extra,
            "format": _FORMAT,
            "source": self.source,
            "kind": self.kind.value,
            "log": [advance.to_json() for advance in self.log],
            "heard_at_us": self.heard_at_us,
            "heard_by": self.heard_by,
        }
        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_body(cls, body: bytes) -> SourceDocument:
        read = decoded(body, what="the document of a source", newest=_FORMAT)
        return cls(
            source=read.pop("source"),
            kind=ValueKind(read.pop("kind")),
            log=tuple(Advance.from_json(advance) for advance in read.pop("log")),
            heard_at_us=read.pop("heard_at_us"),
            heard_by=read.pop("heard_by"),
            extra=read,
        )


def read(store: Store, name: str) -> SourceDocument | None:
    """What is remembered of the source; None when nobody ever advanced it."""
    found = store.get(key(name))
    return None if found is None else SourceDocument.from_body(found.body)


def watermark(document: SourceDocument | None, parts: tuple[str, ...] = ()) -> Watermark | None:
    """What the source is complete through: the least of its declared parts, None while one never spoke."""
    if document is None:
        return None
    newest = [document.newest(part) for part in parts or (None,)]
    values = [advance.value for advance in newest if advance is not None]
    return min(values) if len(values) == len(newest) else None


def advance(
    store: Store,
    name: str,
    kind: ValueKind,
    value: Watermark,
    *,
    by: str,
    parts: tuple[str, ...] = (),
    part: str | None = None,
    version: int | None = None,
    ends: Mapping[str, int] | None = None,
) -> SourceDocument:
    """Raise the watermark of a source, or of one of its parts, and remember it: what is remembered now.

    An equal value with another `version` binds it to that version; without one it is a heartbeat.

    :raises WatermarkBackwards: the value is lower than one that was said before.
    :raises MixedKinds: it is not of the source's kind.
    :raises WatermarkError: `part` is not one of the declared `parts`, or is left out.
    """
    _check_kind(name, kind, value.kind)
    check_part(name, parts, part)
    while True:
        found = store.get(key(name))
        before = SourceDocument(source=name, kind=kind) if found is None else SourceDocument.from_body(found.body)
        said = Advance(
            seq=before.log[-1].seq + 1 if before.log else 1,
            value=value,
            at_us=to_micros(store.now()),
            by=by,
            part=part,
            version=version,
            ends=ends,
        )
        after = advanced(before, said)
        try:
            # a heartbeat must not push an advance out of the history
            store.put(
                key(name),
                after.to_body(),
                expect=None if found is None else found.version,
                history=after.log != before.log,
            )
        except errors.VersionConflict:
            continue  # another loader spoke: judge again
        return after


def advanced(before: SourceDocument, said: Advance) -> SourceDocument:
    """The document after one advance. Pure.

    :raises WatermarkBackwards: lower than what the part said before.
    :raises MixedKinds: of another kind than what was said before.
    """
    _check_kind(before.source, before.kind, said.value.kind)
    last = before.newest(said.part)
    if last is not None and said.value < last.value:
        source = before.source if said.part is None else f"{before.source} (part {said.part})"
        raise errors.WatermarkBackwards(source=source, current=last.value.text, asked=said.value.text)
    is_heartbeat = last is not None and said.value == last.value and said.version in (None, last.version)
    log = before.log if is_heartbeat else thinned((*before.log, said))
    return SourceDocument(
        source=before.source,
        kind=before.kind,
        log=log,
        heard_at_us=said.at_us,
        heard_by=said.by,
        extra=before.extra,
    )


def thinned(log: tuple[Advance, ...], most: int = MAX_LOG) -> tuple[Advance, ...]:
    """The log within its bound: of its older half every second entry of each part, and always its last."""
    if len(log) <= most:
        return log
    half = len(log) // 2
    last = {advance.part: advance.seq for advance in log}
    seen: Counter[str | None] = Counter()
    kept = []
    for advance in log[:half]:
        seen[advance.part] += 1
        if seen[advance.part] % 2 == 0 or advance.seq == last[advance.part]:
            kept.append(advance)
    return (*kept, *log[half:])


def _check_kind(source: str, kind: ValueKind, given: ValueKind) -> None:
    if given is not kind:
        raise errors.MixedKinds(
            where=f"source {source}",
            what=f"its watermark is {_of_kind(kind)}, and {_of_kind(given)} was given",
            hint=f"give {_of_kind(kind)}, such as {_EXAMPLES[kind]}",
        )


def check_part(source: str, parts: tuple[str, ...], part: str | None) -> None:
    """Refuse a part that the source does not have, and none where it has some."""
    if part is None and parts:
        raise errors.WatermarkError(
            what=f"source {source} is advanced by its parts, and no part was named",
            hint=f"say which: {', '.join(parts)}",
        )
    if part is not None and part not in parts:
        known = f"its parts are {', '.join(parts)}" if parts else "it has no `parts:`; advance it without one"
        raise errors.UnknownPartition(partition=part, source=source, hint=known)


_EXAMPLES = {ValueKind.TIMESTAMP: "2026-03-01T12:05:00Z", ValueKind.INTEGER: "1200"}


def _of_kind(kind: ValueKind) -> str:
    return "a timestamp" if kind is ValueKind.TIMESTAMP else "an integer"
