"""Files are read by their paths to the letter, once each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from tests.spark.sessions import small_session
from tidegate.spark import files
from tidegate.spark.files import FileSet

pytestmark = pytest.mark.spark

COLUMNS = StructType([StructField("id", LongType())])
NAMES = ("plain", "a b", "50%25", "#1", "who?", "[1]", "[^x]", "{a,b}", "*", "back\\slash", "日本", "'\"", "~!(x)")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with small_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


def test_a_name_that_is_a_pattern_elsewhere_is_one_file_and_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    written: dict[int, str] = {}
    for number, name in enumerate(NAMES):
        place = tmp_path / "in [ü]" / name / f"{name}.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps({"id": number}))
        written[number] = str(place)
    # What a pattern would have matched as well.
    (tmp_path / "in [ü]" / "1").mkdir()
    (tmp_path / "in [ü]" / "1" / "1.json").write_text('{"id": 99}')
    sets = [FileSet(paths=tuple(written.values()), schema=COLUMNS)]
    rows = files.read(spark, sets, COLUMNS, format="json", options={}).orderBy("id").collect()
    reported = {number: files.reported_path(path) for number, path in written.items()}
    assert [(row.id, row[files.PATH]) for row in rows] == list(reported.items())
