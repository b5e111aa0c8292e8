"""The rules of whoever writes a Delta log, each by its number in docs/decisions/0001-we-write-the-delta-log.md.

What is written is read back with delta-rs, the strictest reader that we know; that plain Spark
agrees is shown under tests/spark/lake.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.unit.lake.samples import NAME, SCHEMA, created, file_of, rows_of, said, shape_of, stage
from tidegate import errors
from tidegate.lake import footers, log, reading, schemas
from tidegate.lake.log import DataFile, Kind
from tidegate.lake.storage import Storage
from tidegate.lake.table import LakeTable


def read_back(table: LakeTable) -> list[dict[str, Any]]:
    """The rows as delta-rs reads them, which are those that we read."""
    rows: list[dict[str, Any]] = deltalake.DeltaTable(table.url).to_pyarrow_table().sort_by("id").to_pylist()
    assert reading.to_arrow(table).sort_by("id").to_pylist() == rows
    return rows


# Rule 1: an outcome that is unknown is found by looking


class Unsteady(Storage):
    """A place that fails in the middle of a put: before it, or after it where nobody is told."""

    def __init__(self, url: str, *, before: int = 0, after: int = 0, meanwhile: Callable[[], object] = int) -> None:
        super().__init__(url, table=NAME)
        self.before, self.after, self.meanwhile, self.puts = before, after, meanwhile, 0

    def put_if_absent(self, path: str, body: bytes) -> bool:
        if not path.startswith("_delta_log"):
            return super().put_if_absent(path, body)
        self.puts += 1
        if self.before:
            self.before -= 1
            self.meanwhile()
            raise errors.LakeUnavailable(table=NAME, what="it went away before")
        won = super().put_if_absent(path, body)
        if self.after:
            self.after -= 1
            raise errors.LakeUnavailable(table=NAME, what="it went away after")
        return won


def unsteady(folder: Path, **how: Any) -> tuple[LakeTable, Unsteady]:
    """A table of one batch whose next puts fail."""
    created(folder, batches=1)
    storage = Unsteady(str(folder), **how)
    return LakeTable(str(folder), NAME, storage=storage), storage


def test_rule_1_a_put_that_raised_and_happened_is_found_and_is_not_done_again(tmp_path: Path) -> None:
    table, storage = unsteady(tmp_path, after=1)
    made = table.commit(said(end=3), added=stage(table, rows_of(2), number=2))
    assert (made.version, storage.puts) == (1, 1)
    assert [one.version for one in LakeTable(str(tmp_path), NAME).versions()] == [0, 1]
    assert len(read_back(table)) == 2


def test_rule_1_a_put_that_raised_and_did_not_happen_is_done_again(tmp_path: Path) -> None:
    table, storage = unsteady(tmp_path, before=2)
    assert table.commit(said(end=3)).version == 1
    assert storage.puts == 3


def test_rule_1_a_put_that_raised_while_another_won_is_lost(tmp_path: Path) -> None:
    other = LakeTable(str(tmp_path), NAME)
    table, _ = unsteady(tmp_path, before=1, meanwhile=lambda: other.commit(said(end=3)))
    with pytest.raises(errors.LakeConflict, match="version 1"):
        table.commit(said(end=3))


def test_rule_1_a_put_that_raised_while_a_newer_owner_won_is_refused(tmp_path: Path) -> None:
    other = LakeTable(str(tmp_path), NAME)
    table, _ = unsteady(tmp_path, before=1, meanwhile=lambda: other.claim(NAME, 1, 2))
    with pytest.raises(errors.StaleWriter):
        table.commit(said(end=3))


def test_rule_1_an_outcome_that_stays_unknown_is_found_by_the_next_look(tmp_path: Path) -> None:
    table, storage = unsteady(tmp_path, before=9)
    with pytest.raises(errors.LakeUnavailable, match="went away before"):
        table.commit(said(end=3))
    assert storage.puts == 3
    storage.before = 0
    LakeTable(str(tmp_path), NAME).commit(said(end=4))
    known = table.known_head()
    assert known is not None
    assert known.version == 1


def test_rule_1_no_file_goes_because_a_commit_raised(tmp_path: Path) -> None:
    table, _ = unsteady(tmp_path, before=9)
    files = stage(table, rows_of(2), number=2)
    with pytest.raises(errors.LakeUnavailable):
        table.commit(said(end=3), added=files)
    assert all((tmp_path / file.path).exists() for file in files)
    assert LakeTable(str(tmp_path), NAME).commit(said(end=3), added=files).version == 1
    assert len(read_back(LakeTable(str(tmp_path), NAME))) == 2


# Rule 2: a power cut leaves what was acknowledged whole, and the rest is repaired


@pytest.mark.parametrize("left", [0, 40, -5], ids=["empty", "cut early", "cut late"])
def test_rule_2_a_torn_last_entry_is_removed_and_its_version_is_won_again(tmp_path: Path, left: int) -> None:
    created(tmp_path, batches=3)
    entry = tmp_path / log.entry_path(2)
    entry.write_bytes(entry.read_bytes()[:left])
    table = LakeTable(str(tmp_path), NAME)
    # Nobody was told of it, so readers do not see it; its version is free once it was removed.
    assert [one.version for one in table.versions()] == [0, 1]
    with pytest.raises(errors.LakeCorrupt, match="version 2"):
        table.commit(said(end=4))
    assert table.repair()
    assert table.commit(said(end=4), added=stage(table, rows_of(3), number=3)).version == 2
    assert [row["id"] for row in read_back(table)] == [1, 2, 3]


def test_rule_2_an_entry_that_is_cut_at_a_line_is_torn_too(tmp_path: Path) -> None:
    created(tmp_path, batches=2)
    entry = tmp_path / log.entry_path(1)
    entry.write_bytes(b"".join(entry.read_bytes().splitlines(keepends=True)[:-1]))
    # Others take it for a commit of fewer files.
    assert deltalake.DeltaTable(str(tmp_path)).version() == 1
    assert LakeTable(str(tmp_path), NAME).repair()
    assert deltalake.DeltaTable(str(tmp_path)).version() == 0


def test_rule_2_a_torn_first_entry_leaves_no_table(tmp_path: Path) -> None:
    created(tmp_path, batches=1)
    (tmp_path / log.entry_path(0)).write_bytes(b"")
    table = LakeTable(str(tmp_path), NAME)
    assert table.head() is None
    assert table.repair()
    assert table.head() is None
    assert table.create(shape_of(), said(end=2)).version == 0


def test_rule_2_a_torn_entry_below_the_newest_stops_the_table(tmp_path: Path) -> None:
    created(tmp_path, batches=3)
    for number in (1, 2):
        (tmp_path / log.entry_path(number)).write_bytes(b'{"commitInfo"')
    with pytest.raises(errors.LakeCorrupt, match="version 1") as told:
        LakeTable(str(tmp_path), NAME).repair()
    assert "restore _delta_log/00000000000000000001.json" in told.value.hint


def test_rule_2_a_checkpoint_that_does_not_read_goes_with_its_hint(tmp_path: Path) -> None:
    table = created(tmp_path, batches=3)
    table.checkpoint()
    (tmp_path / log.checkpoint_path(2)).write_bytes(b"PAR1")
    with pytest.raises(Exception, match=r"(?i)parquet|eof|footer|magic"):
        deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()
    again = LakeTable(str(tmp_path), NAME)
    assert again.repair()
    assert len(read_back(again)) == 3
    assert not (tmp_path / "_delta_log/_last_checkpoint").exists()
    assert not again.repair()


def test_rule_2_a_checkpoint_ahead_of_the_log_goes(tmp_path: Path) -> None:
    table = created(tmp_path, batches=3)
    table.checkpoint()
    (tmp_path / log.entry_path(2)).write_bytes(b"")
    again = LakeTable(str(tmp_path), NAME)
    assert again.repair()
    assert not (tmp_path / log.checkpoint_path(2)).exists()
    assert [row["id"] for row in read_back(again)] == [1, 2]


@pytest.mark.parametrize("hint", [b"", b"\0" * 60, b"[]", b'{"version": 77}'])
def test_rule_2_a_hint_that_is_torn_goes(tmp_path: Path, hint: bytes) -> None:
    created(tmp_path, batches=2)
    (tmp_path / "_delta_log/_last_checkpoint").write_bytes(hint)
    table = LakeTable(str(tmp_path), NAME)
    assert table.repair()
    assert len(read_back(table)) == 2


def test_rule_2_a_whole_table_is_left_alone(tmp_path: Path) -> None:
    created(tmp_path, batches=2).checkpoint()
    before = sorted(tmp_path.rglob("*"))
    assert not LakeTable(str(tmp_path), NAME).repair()
    assert sorted(tmp_path.rglob("*")) == before


# Rule 3: only the version number keeps others out


def test_rule_3_whoever_was_taken_over_is_refused_by_the_log(tmp_path: Path) -> None:
    zombie = created(tmp_path, batches=1)
    LakeTable(str(tmp_path), NAME).claim(NAME, 1, 2)
    with pytest.raises(errors.StaleWriter, match="token 2, ours 1"):
        zombie.commit(said(end=9))
    with pytest.raises(errors.StaleWriter):
        zombie.claim(NAME, 1, 1)


def test_rule_3_entries_stay_whatever_their_age(tmp_path: Path) -> None:
    table = created(tmp_path, batches=4)
    for entry in (tmp_path / "_delta_log").iterdir():
        os.utime(entry, (1_000_000, 1_000_000))
    table.checkpoint()
    assert [one.version for one in LakeTable(str(tmp_path), NAME).versions()] == [0, 1, 2, 3]


def test_rule_3_outsiders_see_a_transaction_number_that_rises(tmp_path: Path) -> None:
    created(tmp_path, batches=3)
    assert deltalake.DeltaTable(str(tmp_path)).transaction_version(f"tidegate/{NAME}") == 2


# Rule 4: statistics that poison nothing and drop nothing


@pytest.mark.parametrize(
    ("stats", "says"),
    [
        ({"minValues": {"id": float("nan")}}, "not JSON compliant"),
        ({"maxValues": {"id": float("inf")}}, "not JSON compliant"),
        ({"maxValues": {"id": 2**63}}, "more than 64 bits"),
        ({"minValues": {"id": -(2**63) - 1}}, "more than 64 bits"),
        ({"maxValues": {"name": "\ud800"}}, "surrogates"),
    ],
)
def test_rule_4_statistics_that_poison_readers_are_never_put(
    tmp_path: Path, stats: Mapping[str, Any], says: str
) -> None:
    table = created(tmp_path, batches=1)
    with pytest.raises(errors.LakeError, match=says):
        table.commit(said(end=3), added=[file_of("data/x", stats=stats)])
    assert not (tmp_path / log.entry_path(1)).exists()
    assert table.commit(said(end=3)).version == 1


@pytest.mark.parametrize("more", [{"extra": {"x": 2**64}}, {"positions": {"s": 2**63}}, {"owner": "\udcff"}])
def test_rule_4_what_a_commit_says_of_itself_poisons_nobody_either(tmp_path: Path, more: Mapping[str, Any]) -> None:
    with pytest.raises(errors.LakeError, match="a commit cannot say"):
        created(tmp_path, batches=1).commit(said(**more))


@pytest.mark.parametrize("poison", [b"NaN", b"Infinity"])
def test_rule_4_a_poisoned_entry_would_have_stopped_delta_rs(tmp_path: Path, poison: bytes) -> None:
    """The control: without the refusal above nobody opens the table any more."""
    table = created(tmp_path, batches=1, shape=shape_of(stats=()))
    body = log.encode(said(end=3), 1, added=[file_of("data/x", stats={"minValues": {"id": 4711}})])
    table.storage.put_if_absent(log.entry_path(1), body.replace(b":4711", b":" + poison))
    with pytest.raises(deltalake.exceptions.DeltaError, match="Json error"):
        deltalake.DeltaTable(str(tmp_path))


def statistics_of(tmp_path: Path, *columns: pa.Array, name: str = "c", group: int = 2) -> dict[str, Any] | None:
    """The statistics of a column that is written as Spark writes it, in row groups of two rows."""
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({name: pa.chunked_array(list(columns))}), path, row_group_size=group)
    return footers.statistics(pq.read_metadata(path), [name])


def test_rule_4_floats_have_no_statistics(tmp_path: Path) -> None:
    schema = schemas.of_columns({"id": "long", "f": "float", "d": "double", "m": "decimal(5,2)", "b": "boolean"})
    assert schemas.with_statistics(schema, ["id", "f", "d", "m", "b", "none"]) == ("id",)
    assert statistics_of(tmp_path, pa.array([1.0, float("nan")])) is None


def test_rule_4_text_that_is_cut_is_never_below_the_real_highest(tmp_path: Path) -> None:
    long, highest = "é" * 100, "\U0010ffff"
    stats = statistics_of(tmp_path, pa.array(["a" * 100, long]))
    assert stats is not None
    assert stats["minValues"]["c"] == "a" * 64
    assert stats["maxValues"]["c"] == "é" * 64 + highest > long
    top = "b" * 64 + highest * 3
    stats = statistics_of(tmp_path, pa.array([top, top + "x"]))
    assert stats is not None
    assert stats["maxValues"]["c"] >= top + "x"


def test_rule_4_times_are_rounded_outwards_to_what_delta_writes(tmp_path: Path) -> None:
    low = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    high = datetime(2026, 3, 1, 12, 5, 0, 1, tzinfo=UTC)
    stats = statistics_of(tmp_path, pa.array([low, high], pa.timestamp("us", "UTC")))
    assert stats is not None
    assert stats["minValues"] == {"c": "1969-12-31T23:59:59.999Z"}
    assert stats["maxValues"] == {"c": "2026-03-01T12:05:00.001Z"}


@pytest.mark.parametrize(
    ("array", "low", "high", "nulls"),
    [
        (pa.array([3, None, -(2**63), 2**63 - 1, 7]), -(2**63), 2**63 - 1, 1),
        (pa.array([date(2026, 3, 1), date(1, 1, 1)]), "0001-01-01", "2026-03-01", 0),
        (pa.array(["b", None, None, ""]), "", "b", 2),
        (pa.array([1, 2], pa.int8()), 1, 2, 0),
    ],
)
def test_rule_4_statistics_cover_all_row_groups(
    tmp_path: Path, array: pa.Array, low: object, high: object, nulls: int
) -> None:
    assert statistics_of(tmp_path, array) == {
        "minValues": {"c": low},
        "maxValues": {"c": high},
        "nullCount": {"c": nulls},
    }


def test_rule_4_a_column_of_nulls_alone_has_a_count_and_no_bounds(tmp_path: Path) -> None:
    nulls = statistics_of(tmp_path, pa.array([None, None, None], pa.int64()))
    assert nulls == {"minValues": {}, "maxValues": {}, "nullCount": {"c": 3}}


@pytest.mark.parametrize(
    "array",
    [
        pa.array([Decimal("1.5")]),
        pa.array([b"\xff\xfe", b"a"]).view(pa.string()),
        pa.array([2**62], pa.timestamp("us", "UTC")),
        pa.array([True, False]),
    ],
    ids=["decimal", "not Unicode", "beyond year 9999", "boolean"],
)
def test_rule_4_a_column_that_cannot_be_told_leaves_the_file_without_statistics(
    tmp_path: Path, array: pa.Array
) -> None:
    assert statistics_of(tmp_path, array) is None


def test_rule_4_it_is_all_declared_columns_or_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "d": [1.5]}), tmp_path / "f.parquet")
    metadata = pq.read_metadata(tmp_path / "f.parquet")
    assert footers.statistics(metadata, ["a"]) is not None
    for columns in (["a", "d"], ["a", "absent"], []):
        assert footers.statistics(metadata, columns) is None


@pytest.mark.parametrize("name", ["a.b", "order-id", "ü", "1st", "a`b"])
def test_rule_4_names_that_the_property_would_read_otherwise_get_none(name: str) -> None:
    """`a.b` in `delta.dataSkippingStatsColumns` is a field of a struct."""
    assert schemas.with_statistics(schemas.of_columns({name: "long"}), [name]) == ()


def test_rule_4_filters_of_delta_rs_drop_no_rows(tmp_path: Path) -> None:
    table = created(tmp_path)
    table.create(shape_of(), said(end=2), added=stage(table, rows_of(1, 2), number=1))
    table.commit(said(end=3), added=stage(table, rows_of(3, 4), number=2, stats=()))
    table.commit(said(end=4), added=stage(table, [{"id": None, "name": "n5"}], number=3))
    dataset = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    names = [row["name"] for row in dataset.to_table(filter=ds.field("id") >= 2).sort_by("name").to_pylist()]
    assert names == ["n2", "n3", "n4"]
    assert dataset.to_table(filter=ds.field("name") == "n4").num_rows == 1
    assert dataset.to_table(filter=ds.field("name") >= "n5").num_rows == 1
    assert deltalake.DeltaTable(str(tmp_path)).count() == 5


def test_rule_4_the_table_names_exactly_the_columns_that_get_statistics() -> None:
    shape = shape_of(stats=("id", "at", "absent"))
    assert shape.configuration["delta.dataSkippingStatsColumns"] == "id,at"
    assert schemas.statistics_of(shape) == ("id", "at")
    none = shape_of(stats=())
    assert none.configuration["delta.dataSkippingNumIndexedCols"] == "0"
    assert schemas.statistics_of(none) == ()


# Rule 5: the schema is compared by us, to the letter


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ({"ID": pa.array([1])}, "nothing as column id|long as column ID"),
        ({"id": pa.array(["1"])}, "string as column id, not long"),
        ({"id": pa.array([1], pa.int32())}, "integer as column id, not long"),
        ({"id": pa.array([1]), "more": pa.array([1])}, "long as column more, not nothing"),
        ({"more": pa.array([1])}, "column (id|more)"),
        ({"id": pa.array([1.5])}, "double as column id"),
    ],
)
def test_rule_5_a_footer_is_the_tables_to_the_letter(tmp_path: Path, column: dict[str, pa.Array], says: str) -> None:
    pq.write_table(pa.table(column), tmp_path / "f.parquet")
    footer = footers.read(Storage(str(tmp_path), table=NAME), "f.parquet", stats_columns=(), table=NAME)
    with pytest.raises(errors.SchemaMismatch, match=says):
        footers.check(footer, schemas.of_columns({"id": "long"}), "f.parquet", table=NAME)


@pytest.mark.parametrize(
    ("type_", "says"),
    [
        (pa.timestamp("us"), "cast timestamp_ntz to timestamp"),
        (pa.timestamp("ms", "UTC"), "TIMESTAMP_MICROS"),
        (pa.timestamp("ns", "UTC"), "TIMESTAMP_MICROS"),
    ],
)
def test_rule_5_times_are_utc_in_microseconds_or_refused(tmp_path: Path, type_: pa.DataType, says: str) -> None:
    pq.write_table(pa.table({"at": pa.array([1], type_)}), tmp_path / "f.parquet")
    with pytest.raises(errors.SchemaMismatch) as told:
        footers.read(Storage(str(tmp_path), table=NAME), "f.parquet", stats_columns=(), table=NAME)
    assert says in told.value.hint


def test_rule_5_int96_is_refused_and_its_setting_named(tmp_path: Path) -> None:
    times = pa.array([datetime(2026, 3, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": times}), tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    with pytest.raises(errors.SchemaMismatch, match="column at was written as timestamp"):
        footers.read(Storage(str(tmp_path), table=NAME), "f.parquet", stats_columns=(), table=NAME)


@pytest.mark.parametrize("column", [pa.array([1], pa.uint64()), pa.array([1], pa.time64("us"))])
def test_rule_5_types_that_delta_does_not_have_are_refused(tmp_path: Path, column: pa.Array) -> None:
    pq.write_table(pa.table({"x": column}), tmp_path / "f.parquet")
    with pytest.raises(errors.SchemaMismatch, match="no type of Delta"):
        footers.read(Storage(str(tmp_path), table=NAME), "f.parquet", stats_columns=(), table=NAME)


def test_rule_5_every_column_is_nullable_at_every_depth() -> None:
    deep = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": False, "metadata": {"a": 1}}]}
    listed = {"type": "array", "elementType": deep, "containsNull": False}
    mapped = {"type": "map", "keyType": "string", "valueType": listed, "valueContainsNull": False}
    spark = {"type": "struct", "fields": [{"name": "m", "type": mapped, "nullable": False, "metadata": {}}]}
    text = schemas.of_spark(json.dumps(spark), table=NAME)
    assert '"nullable":false' not in text
    assert 'ContainsNull":false' not in text.replace("containsNull", "ContainsNull")
    assert '"a":1' not in text


def test_rule_5_columns_that_came_later_are_null_before(tmp_path: Path) -> None:
    old = schemas.of_columns({"id": "long"})
    table = created(tmp_path)
    table.create(shape_of(old), said(end=2), added=stage(table, [{"id": 1}], schema=old))
    shape = table.shape()
    assert shape is not None
    wider = log.TableShape(
        table_id=shape.table_id, schema_json=SCHEMA, configuration=shape.configuration, created_ms=shape.created_ms
    )
    table.commit(said(Kind.SCHEMA, end=2), shape=wider)
    table.commit(said(end=3), added=stage(table, rows_of(2), number=2))
    assert [(row["id"], row["name"]) for row in read_back(table)] == [(1, None), (2, "n2")]
    assert reading.to_arrow(table, 0).column_names == ["id"]


# Rule 6: paths are encoded once


@pytest.mark.parametrize(
    "name", ["a b", "50%", "a%20b", "#1 ü", "x=1,y;z", "q?&+", "[1]{2}", "'\"", "né", "a:b", "~$@!()*^`|<>\\"]
)
def test_rule_6_a_path_is_encoded_once_and_deleted_by_its_own_name(tmp_path: Path, name: str) -> None:
    table = created(tmp_path)
    (staged,) = stage(table, rows_of(1))
    path = f"data/1-1-1/{name}.parquet"
    os.rename(tmp_path / staged.path, tmp_path / path)
    odd = DataFile(**{**staged.to_json(), "path": path, "range": staged.range})
    table.create(shape_of(), said(end=2), added=[odd])
    assert [row["id"] for row in read_back(table)] == [1]
    assert [file.path for file in LakeTable(str(tmp_path), NAME).files()] == [path]
    table.commit(said(Kind.PRUNE, end=2, reader_lo=2), removed=[odd])
    assert read_back(table) == []
    assert table.delete_files([path]) == (path,)
    assert not (tmp_path / path).exists()


def test_rule_6_a_path_that_is_not_unicode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.LakeError, match="cannot name"):
        created(tmp_path, batches=1).commit(said(), added=[file_of("data/\udcff")])


# Rule 7: what is repeated has no effect


def test_rule_7_what_is_added_or_removed_twice_counts_once(tmp_path: Path) -> None:
    table = created(tmp_path, batches=2)
    first, second = table.files()
    table.commit(said(end=3), added=[second])
    assert len(read_back(table)) == 2
    for _ in range(2):
        table.commit(said(Kind.PRUNE, end=3, reader_lo=2), removed=[first, file_of("data/never")])
    assert [row["id"] for row in read_back(table)] == [2]
    assert LakeTable(str(tmp_path), NAME).files() == (second,)
