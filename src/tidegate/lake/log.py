"""The entries of a Delta log as values: what they say, and how they are written and read.

An entry of ours is one commit: its first line is `commitInfo`, whose `userMetadata` is one JSON
document, our `Metadata`; then a `txn` that rises for outsiders, and the files that came and went.
Everything that a reader could be poisoned by is refused here, before it is put
(docs/decisions/0001-we-write-the-delta-log.md).

Light: heads and versions are read with json alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any, Final
from urllib.parse import quote, unquote

from tidegate import errors
from tidegate.progress.ranges import Range
from tidegate.progress.watermarks import Vector, Watermark
from tidegate.quick import dataclass

#: Of our metadata. A reader refuses a newer one instead of guessing.
FORMAT: Final = 1
#: Reader and writer version of the Delta protocol: the lowest, which every reader knows.
PROTOCOL: Final = {"minReaderVersion": 1, "minWriterVersion": 2}

_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_INT64: Final = range(-(2**63), 2**63)
#: What bytes that are not ours, or not whole, make of being read.
_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError)


class Kind(Enum):
    """What a commit of ours did."""

    CREATE = "create"
    CLAIM = "claim"
    PUBLISH = "publish"
    REFRESH = "refresh"
    LOAD = "load"
    PRUNE = "prune"
    COMPACT = "compact"
    RETRACT = "retract"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A Parquet file of a table. `path` is relative to the table, and as it is on the disk: not encoded.

    `range` are the checkpoints whose rows it holds, `stats` is Delta's: `minValues`, `maxValues`
    and `nullCount` of the declared columns.
    """

    path: str
    size_bytes: int
    rows: int
    modified_ms: int
    stats: Mapping[str, Any] | None = None
    range: Range | None = None

    def __post_init__(self) -> None:
        if not self.path or self.path.startswith("/") or ".." in self.path.split("/"):
            raise ValueError(f"{self.path!r} is not a path inside a table")
        if self.size_bytes < 0 or self.rows < 0:
            raise ValueError(f"{self.path} cannot have {self.size_bytes} bytes and {self.rows} rows")

    def to_json(self) -> dict[str, Any]:
        """For receipts."""
        return {
            "path": self.path,
            "size_bytes": self.size_bytes,
            "rows": self.rows,
            "modified_ms": self.modified_ms,
            "stats": None if self.stats is None else dict(self.stats),
            "range": None if self.range is None else [self.range.lo, self.range.hi],
        }

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> DataFile:
        return cls(**{**read, "range": None if read["range"] is None else Range(*read["range"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What a commit says of the table from then on. Every commit has it in full, so that the newest is enough.

    `end` is exclusive. `id` is the commit's own, by which its writer knows it again; `at_us` and `id`
    are given by the table when it commits. `frontier` and `effective` are those of a maintained table.
    """

    kind: Kind
    table: str
    owner: str
    epoch: int
    token: int
    id: str = ""
    at_us: int = 0
    end: int | None = None
    reader_lo: int | None = None
    positions: Mapping[str, int] = field(default_factory=dict)
    vector: Vector = field(default_factory=Vector)
    frontier: Mapping[str, int] = field(default_factory=dict)
    effective: Mapping[str, Watermark] = field(default_factory=dict)
    ungated: bool = False
    schema_fp: str | None = None
    source_identity: str | None = None
    lateness_us: int | None = None
    definition: str | None = None
    rows: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The fields that say something; `extra` last, under its own names."""
        said = {name: getattr(self, name) for name in _PLAIN}
        said |= {
            "kind": self.kind.value,
            "positions": dict(self.positions),
            "vector": self.vector.to_json(),
            "frontier": dict(self.frontier),
            "effective": {group: value.to_json() for group, value in self.effective.items()},
            "extra": dict(self.extra),
        }
        return {"tidegate": FORMAT, **{name: value for name, value in said.items() if _says(value)}}

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Metadata:
        """What `to_json` wrote; fields that a later Tidegate may add are left alone."""
        plain = {name: read[name] for name in _PLAIN if name in read}
        return cls(
            kind=Kind(read["kind"]),
            positions=read.get("positions", {}),
            vector=Vector.from_json(read.get("vector", {})),
            frontier=read.get("frontier", {}),
            effective={group: Watermark.from_json(value) for group, value in read.get("effective", {}).items()},
            extra=read.get("extra", {}),
            **plain,
        )


_PLAIN: Final = (
    "id",
    "at_us",
    "table",
    "owner",
    "epoch",
    "token",
    "end",
    "reader_lo",
    "ungated",
    "schema_fp",
    "source_identity",
    "lateness_us",
    "definition",
    "rows",
)


def _says(value: object) -> bool:
    return value is not None and value is not False and value not in ({}, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One commit of a table's log. Without metadata it was made by somebody else."""

    version: int
    at_us: int
    metadata: Metadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """A table's columns and properties, as a commit that changes them states them."""

    table_id: str
    schema_json: str
    configuration: Mapping[str, str] = field(default_factory=dict)
    created_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A whole commit: its version, the files that came, those that went, and the shape where it changed.

    `removed_bytes` are the sizes of `removed`, one by one.
    """

    version: Version
    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    removed_bytes: tuple[int, ...] = ()
    shape: TableShape | None = None


def entry_path(version: int) -> str:
    """Where the entry of a version is, relative to the table."""
    return f"_delta_log/{version:020d}.json"


def version_of(path: str) -> int | None:
    """The version whose entry the path is; None for anything else in the log's folder."""
    found = _ENTRY.fullmatch(path.rpartition("/")[2])
    return None if found is None else int(found[1])


def checkpoint_path(version: int) -> str:
    """Where the log checkpoint of a version is, relative to the table."""
    return f"_delta_log/{version:020d}.checkpoint.parquet"


def checkpoint_of(path: str) -> int | None:
    """The version whose log checkpoint the path is; None for anything else in the log's folder."""
    found = _CHECKPOINT.fullmatch(path.rpartition("/")[2])
    return None if found is None else int(found[1])


def encode(
    metadata: Metadata,
    version: int,
    *,
    added: Iterable[DataFile] = (),
    removed: Iterable[tuple[str, int]] = (),
    shape: TableShape | None = None,
) -> bytes:
    """The entry of a commit. `removed` are decoded paths with their sizes.

    Raises `LakeError` for what would stop a reader for ever: NaN or infinity, numbers over 64 bits,
    text that is not Unicode.
    """
    at_ms = metadata.at_us // 1000
    table = metadata.table
    actions: list[dict[str, Any]] = []
    if shape is not None:
        actions += [{"protocol": PROTOCOL}, {"metaData": _shape_action(shape)}]
    actions.append({"txn": {"appId": f"tidegate/{table}", "version": version, "lastUpdated": at_ms}})
    actions += [{"remove": _remove_action(path, size, at_ms, table)} for path, size in removed]
    actions += [{"add": _add_action(file, table)} for file in added]
    # The number of lines is how a later reader knows that a power cut did not take the last ones away.
    said = {**metadata.to_json(), "lines": len(actions) + 1}
    info = {
        "timestamp": at_ms,
        "operation": f"TIDEGATE {metadata.kind.value.upper()}",
        "operationParameters": {},
        "engineInfo": "tidegate",
        "userMetadata": _text(said, table).decode(),
    }
    return b"".join(_text(action, table) + b"\n" for action in [{"commitInfo": info}, *actions])


def decode(body: bytes, version: int, *, table: str) -> Entry:
    """The whole entry. Raises `LakeCorrupt` when it does not parse or lines are missing."""
    version_read = decode_version(body, version, table=table)
    added: list[DataFile] = []
    removed: list[tuple[str, int]] = []
    shape: TableShape | None = None
    try:
        for line in body.splitlines():
            if line.startswith(b'{"add"'):
                added.append(file_of(json.loads(line)["add"]))
            elif line.startswith(b'{"remove"'):
                action = json.loads(line)["remove"]
                removed.append((unquote(action["path"]), action.get("size") or 0))
            elif line.startswith(b'{"metaData"'):
                shape = shape_of(json.loads(line)["metaData"])
    except _UNREADABLE as exc:
        raise _corrupt(table, version, str(exc)) from exc
    return Entry(
        version=version_read,
        added=tuple(added),
        removed=tuple(path for path, _ in removed),
        removed_bytes=tuple(size for _, size in removed),
        shape=shape,
    )


def decode_version(body: bytes, version: int, *, table: str) -> Version:
    """Only what the commit says of itself. Raises `LakeCorrupt` as `decode` does."""
    try:
        info = _commit_info(body)
        said = _our_document(info.get("userMetadata"))
    except _UNREADABLE as exc:
        raise _corrupt(table, version, str(exc)) from exc
    if said is None:
        if is_torn(body):
            raise _corrupt(table, version, "it ends in the middle")
        return Version(version=version, at_us=int(info.get("timestamp") or 0) * 1000)
    if said["tidegate"] > FORMAT:
        raise errors.LakeError(
            table=table, what=f"version {version} was written by a newer Tidegate (format {said['tidegate']})"
        )
    lines = body.count(b"\n")
    if lines != said.get("lines"):
        raise _corrupt(table, version, f"{lines} of {said.get('lines')} lines are there")
    try:
        metadata = Metadata.from_json(said)
    except _UNREADABLE as exc:
        raise _corrupt(table, version, str(exc)) from exc
    return Version(version=version, at_us=metadata.at_us, metadata=metadata)


def is_torn(body: bytes) -> bool:
    """Whether a power cut took the entry or its end away. An empty one is read as a commit of nothing by others."""
    try:
        actions = [dict(json.loads(line)) for line in body.splitlines()]
        said = _our_document(actions[0].get("commitInfo", {}).get("userMetadata")) if actions else None
    except _UNREADABLE:
        return True
    return not actions or (said is not None and body.count(b"\n") != said.get("lines"))


def _commit_info(body: bytes) -> dict[str, Any]:
    # Ours and Spark's come first; delta-rs puts it last.
    for line in body.splitlines():
        if line.startswith(b'{"commitInfo"'):
            return dict(json.loads(line)["commitInfo"])
    return {}


def _our_document(text: object) -> dict[str, Any] | None:
    if not isinstance(text, str) or '"tidegate"' not in text:
        return None
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return said if isinstance(said, dict) and isinstance(said.get("tidegate"), int) else None


def _corrupt(table: str, version: int, why: str) -> errors.LakeCorrupt:
    return errors.LakeCorrupt(
        table=table,
        what=f"the log entry of version {version} does not parse: {why}",
        hint=f"restore _delta_log/{version:020d}.json from a copy; nothing after it can be read without it",
    )


def _text(document: Mapping[str, Any], table: str) -> bytes:
    _check_numbers(document, table)
    try:
        return json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError) as exc:
        raise errors.LakeError(table=table, what=f"a commit cannot say this: {exc}") from exc


def _check_numbers(document: object, table: str) -> None:
    if isinstance(document, Mapping):
        for value in document.values():
            _check_numbers(value, table)
    elif isinstance(document, list | tuple):
        for value in document:
            _check_numbers(value, table)
    elif isinstance(document, int) and document not in _INT64:
        raise errors.LakeError(table=table, what=f"a commit cannot say {document}: it has more than 64 bits")


def _shape_action(shape: TableShape) -> dict[str, Any]:
    return {
        "id": shape.table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": shape.schema_json,
        "partitionColumns": [],
        "configuration": dict(shape.configuration),
        "createdTime": shape.created_ms,
    }


def shape_of(action: Mapping[str, Any]) -> TableShape:
    """The shape that a `metaData` action states."""
    return TableShape(
        table_id=action["id"],
        schema_json=action["schemaString"],
        configuration=action.get("configuration") or {},
        created_ms=action.get("createdTime"),
    )


def _add_action(file: DataFile, table: str) -> dict[str, Any]:
    tags = {} if file.range is None else {"first": str(file.range.lo), "last": str(file.range.hi - 1)}
    stats = {"numRecords": file.rows, **(file.stats or {})}
    return {
        "path": encoded(file.path, table=table),
        "partitionValues": {},
        "size": file.size_bytes,
        "modificationTime": file.modified_ms,
        "dataChange": True,
        "stats": _text(stats, table).decode(),
        **({"tags": tags} if tags else {}),
    }


def file_of(action: Mapping[str, Any]) -> DataFile:
    """The file that an `add` action states."""
    stats = json.loads(action.get("stats") or "{}")
    tags = action.get("tags") or {}
    has_range = "first" in tags and "last" in tags
    return DataFile(
        path=unquote(action["path"]),
        size_bytes=action["size"],
        rows=stats.pop("numRecords", 0),
        modified_ms=action["modificationTime"],
        stats=stats or None,
        range=Range.of_inclusive(int(tags["first"]), int(tags["last"])) if has_range else None,
    )


def _remove_action(path: str, size_bytes: int, at_ms: int, table: str) -> dict[str, Any]:
    return {
        "path": encoded(path, table=table),
        "deletionTimestamp": at_ms,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": size_bytes,
    }


def encoded(path: str, *, table: str) -> str:
    """The path as the log writes it: percent-encoded once."""
    try:
        return quote(path, safe="/=-_.~+,@!$'()*")
    except UnicodeEncodeError as exc:
        raise errors.LakeError(table=table, what=f"a commit cannot name {path!r}: {exc}") from exc


def total_rows(files: Sequence[DataFile]) -> int:
    """The rows of all of them."""
    return sum(file.rows for file in files)
