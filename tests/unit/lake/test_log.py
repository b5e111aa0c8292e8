"""Entries as values: what is written is read again, and what is not whole is noticed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.lake.samples import NAME, file_of, said, shape_of
from tidegate import errors
from tidegate.lake import log
from tidegate.lake.log import DataFile, Entry, Kind, Metadata, TableShape, Version
from tidegate.progress.ranges import Range
from tidegate.progress.watermarks import ValueKind, Vector, Watermark

numbers = st.integers(0, 2**62)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
paths = texts.filter(lambda one: not one.startswith("/") and ".." not in one.split("/"))
ranges = st.builds(lambda lo, size: Range(lo, lo + size), numbers, st.integers(1, 1000))
statistics = st.fixed_dictionaries(
    {"minValues": st.dictionaries(texts, numbers | texts, max_size=2), "nullCount": st.just({"ü": 0})}
)
files = st.builds(
    DataFile,
    path=paths,
    size_bytes=numbers,
    rows=numbers,
    modified_ms=numbers,
    stats=st.none() | statistics,
    range=st.none() | ranges,
)
watermarks = st.builds(Watermark, kind=st.sampled_from(ValueKind), value=st.integers(-(2**62), 2**62))
metadata = st.builds(
    Metadata,
    kind=st.sampled_from(Kind),
    table=texts,
    owner=texts,
    epoch=numbers,
    token=numbers,
    id=texts,
    at_us=numbers,
    end=st.none() | numbers,
    reader_lo=st.none() | numbers,
    positions=st.dictionaries(texts, numbers, max_size=2),
    vector=st.dictionaries(texts, watermarks, max_size=2).map(Vector),
    effective=st.dictionaries(texts, watermarks, max_size=2),
    frontier=st.dictionaries(texts, numbers, max_size=2),
    ungated=st.booleans(),
    schema_fp=st.none() | texts,
    definition=st.none() | texts,
    lateness_us=st.none() | numbers,
    rows=st.none() | numbers,
    extra=st.dictionaries(texts, numbers, max_size=2),
)


@settings(max_examples=60, deadline=None)
@given(
    metadata=metadata,
    added=st.lists(files, max_size=3),
    removed=st.lists(st.tuples(paths, numbers), max_size=3),
    with_shape=st.booleans(),
    version=st.integers(0, 10**9),
)
def test_what_is_written_is_read_again(
    metadata: Metadata, added: list[DataFile], removed: list[tuple[str, int]], with_shape: bool, version: int
) -> None:
    shape = shape_of() if with_shape else None
    body = log.encode(metadata, version, added=added, removed=removed, shape=shape)
    wanted = Version(version=version, at_us=metadata.at_us, metadata=metadata)
    assert log.decode_version(body, version, table=NAME) == wanted
    assert log.decode(body, version, table=NAME) == Entry(
        version=wanted,
        added=tuple(added),
        removed=tuple(path for path, _ in removed),
        removed_bytes=tuple(size for _, size in removed),
        shape=shape,
    )


@settings(max_examples=30, deadline=None)
@given(file=files)
def test_a_file_comes_through_a_receipt(file: DataFile) -> None:
    assert DataFile.from_json(json.loads(json.dumps(file.to_json()))) == file


def entry(**more: Any) -> bytes:
    """A whole entry of several lines."""
    return log.encode(said(), 3, added=[file_of("data/a"), file_of("data/b")], **more)


def test_an_entry_that_is_cut_anywhere_is_torn() -> None:
    body = entry()
    for cut in range(len(body)):
        assert log.is_torn(body[:cut])
        with pytest.raises(errors.LakeCorrupt, match="version 3"):
            log.decode_version(body[:cut], 3, table=NAME)


@pytest.mark.parametrize("page", [(0, 64), (300, 364), (-80, -10)])
def test_an_entry_with_zeros_in_it_is_torn(page: tuple[int, int]) -> None:
    body = bytearray(entry())
    lo, hi = (one % len(body) for one in page)
    body[lo:hi] = bytes(hi - lo)
    assert log.is_torn(bytes(body))
    with pytest.raises(errors.LakeCorrupt):
        log.decode(bytes(body), 3, table=NAME)


def test_a_whole_entry_is_not_torn() -> None:
    assert not log.is_torn(entry())
    assert not log.is_torn(entry(shape=shape_of(), removed=[("data/c", 1)]))


def lines_of(*actions: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in actions)


INFO = {"commitInfo": {"timestamp": 5, "operation": "OPTIMIZE", "userMetadata": '{"said": "tidegate"}'}}
ADD = {"add": {"path": "a%20b", "size": 7, "modificationTime": 1, "stats": None, "tags": None}}
REMOVE = {"remove": {"path": "c%2525", "dataChange": True}}


@pytest.mark.parametrize("actions", [(INFO, ADD, REMOVE), (ADD, REMOVE, INFO)], ids=["Spark", "delta-rs"])
def test_what_others_committed_is_read_and_is_not_ours(actions: tuple[dict[str, Any], ...]) -> None:
    read = log.decode(lines_of(*actions), 9, table=NAME)
    assert (read.version.metadata, read.version.at_us) == (None, 5_000)
    assert [(file.path, file.rows, file.range) for file in read.added] == [("a b", 0, None)]
    assert (read.removed, read.removed_bytes) == (("c%25",), (0,))


@pytest.mark.parametrize("lost", ["path", "size", "modificationTime"])
def test_an_action_that_says_too_little_is_named_with_its_version(lost: str) -> None:
    add = {"add": {name: value for name, value in ADD["add"].items() if name != lost}}
    with pytest.raises(errors.LakeCorrupt, match="version 9 does not parse"):
        log.decode(lines_of(INFO, add), 9, table=NAME)


def test_a_newer_format_is_refused_and_not_guessed() -> None:
    newer = entry().replace(b'\\"tidegate\\":1', b'\\"tidegate\\":2')
    with pytest.raises(errors.LakeError, match="newer Tidegate"):
        log.decode_version(newer, 3, table=NAME)


def test_fields_that_a_later_tidegate_adds_are_left_alone() -> None:
    later = entry().replace(b'\\"tidegate\\":1', b'\\"tidegate\\":1,\\"more\\":[1]')
    assert log.decode_version(later, 3, table=NAME).metadata == said()


def test_a_kind_that_nobody_knows_is_corrupt() -> None:
    with pytest.raises(errors.LakeCorrupt, match="mystery"):
        log.decode_version(entry().replace(b"publish", b"mystery"), 3, table=NAME)


@pytest.mark.parametrize(
    ("path", "version", "checkpoint"),
    [
        (log.entry_path(7), 7, None),
        (log.checkpoint_path(7), None, 7),
        ("_delta_log/_last_checkpoint", None, None),
        ("_delta_log/00000000000000000007.json.tmp", None, None),
        ("_delta_log/7.json", None, None),
    ],
)
def test_the_names_in_the_logs_folder(path: str, version: int | None, checkpoint: int | None) -> None:
    assert (log.version_of(path), log.checkpoint_of(path)) == (version, checkpoint)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../other/x", "data/../../x"])
def test_a_file_is_inside_its_table(path: str) -> None:
    with pytest.raises(ValueError, match="not a path inside"):
        file_of(path)


@pytest.mark.parametrize("wrong", [{"size_bytes": -1}, {"rows": -1}])
def test_a_file_has_no_negative_sizes(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="cannot have"):
        file_of("data/a", **wrong)


def test_the_shape_says_the_lowest_protocol_first() -> None:
    lines = [json.loads(line) for line in entry(shape=shape_of()).splitlines()]
    assert [next(iter(line)) for line in lines] == ["commitInfo", "protocol", "metaData", "txn", "add", "add"]
    assert lines[1]["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}


def test_a_shape_without_properties_is_read() -> None:
    assert log.shape_of({"id": "x", "schemaString": "{}"}) == TableShape(table_id="x", schema_json="{}")
