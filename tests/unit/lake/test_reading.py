"""Reading a version without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lake.samples import NAME, created, rows_of, said, stage
from tidegate import errors
from tidegate.lake import reading
from tidegate.lake.log import Kind
from tidegate.lake.table import LakeTable


def test_a_table_without_versions_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(errors.NotYetPublished, match="orders"):
        reading.to_arrow(LakeTable(str(tmp_path), NAME))


def test_a_version_is_read_as_it_was(tmp_path: Path) -> None:
    table = created(tmp_path, batches=3)
    table.commit(said(Kind.PRUNE, end=4, reader_lo=3), removed=table.files()[:2])
    ids = {number: reading.to_arrow(table, number)["id"].to_pylist() for number in (None, 0, 1, 2, 3)}
    assert ids == {None: [3], 0: [1], 1: [1, 2], 2: [1, 2, 3], 3: [3]}
    with pytest.raises(errors.LakeError, match="no version 4"):
        reading.to_arrow(table, 4)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 99])
def test_a_limit_takes_the_first_rows(tmp_path: Path, limit: int) -> None:
    table = created(tmp_path, batches=1)
    table.commit(said(end=3), added=stage(table, rows_of(2, 3), number=2))
    read = reading.to_arrow(table, columns=["name", "id"], limit=limit)
    assert (read.column_names, read["id"].to_pylist()) == (["name", "id"], [1, 2, 3][:limit])
