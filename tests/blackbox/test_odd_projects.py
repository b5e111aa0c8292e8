"""Projects as people have them: letters of all kinds, every format, two readers of one source, changes of mind."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.blackbox.harness import Project

pytestmark = pytest.mark.spark

PROJECT = """\
sources:
  people:
    type: landing
    path: "in coming/Leute, ü"
    format: csv
    options: {header: "true", sep: ";"}
    schema: "id BIGINT, `größe` DOUBLE"
    watermark: timestamp
  lines: {type: landing, path: in coming/lines, format: text, watermark: integer}
  parts: {type: landing, path: in coming/parts, format: parquet, schema: "id BIGINT, name STRING", watermark: integer}
  packed: {type: landing, path: in coming/packed, format: json, schema: "id BIGINT, n BIGINT", watermark: integer}
  nothing: {type: landing, path: in coming/nothing, format: json, schema: "id BIGINT", watermark: integer}
  large: {type: numbered, path: "in coming/large/{number}.json", format: json, schema: "id BIGINT"}
pipelines:
  people: {source: people, sinks: [{name: lake, type: delta, table: people}]}
  tall: {source: people, transform: "pipelines/all.py:tall", sinks: [{name: lake, type: delta, table: tall}]}
  lines: {source: lines, sinks: [{name: lake, type: delta, table: lines}]}
  parts: {source: parts, sinks: [{name: lake, type: delta, table: parts}]}
  packed: {source: packed, transform: "pipelines/all.py:packed", sinks: [{name: lake, type: delta, table: packed}]}
  newest: {source: packed, from: now, sinks: [{name: lake, type: delta, table: newest}]}
  nothing: {source: nothing, from: now, sinks: [{name: lake, type: delta, table: nothing}]}
  large: {source: large, sinks: [{name: lake, type: delta, table: large}]}
  broken: {source: large, transform: "pipelines/all.py:broken", sinks: [{name: lake, type: delta, table: broken}]}
"""
TRANSFORMS = """\
from pyspark.sql import functions as F

def tall(df):
    return df.where(F.col("größe") > 1.8)

def packed(df):
    return df

def broken(df):
    return df.withColumn("x", 1 / 0)
"""
LARGE = 2**53 + 1


def land(project: Project, path: str, data: bytes) -> None:
    """A file of bytes; it appears whole."""
    target = project.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}")
    draft.write_bytes(data)
    draft.rename(target)


def packed(*ids: int) -> bytes:
    return gzip.compress("".join(json.dumps({"id": one, "n": one * 10}) + "\n" for one in ids).encode())


def test_an_odd_project_runs_and_changes_its_mind(make_project: Callable[..., Project]) -> None:
    """One project through three runs: everything there once; what cannot go on says why, and nothing else stops."""
    project = make_project(PROJECT, "a shop, ü/shop")
    project.write("pipelines/all.py", TRANSFORMS)
    land(project, "in coming/Leute, ü/erste [1].csv", "größe;id\n1,7;0\n1.7;1\n1.9;2\n".encode())
    land(project, "in coming/lines/a{b}.log", "one\n\nthrée\n".encode())
    (project.root / "in coming/parts").mkdir(parents=True)
    pq.write_table(pa.table({"name": ["ü"], "id": [1]}), project.root / "in coming/parts/a b.parquet")
    land(project, "in coming/packed/1 %20.json.gz", packed(1, 2))
    land(project, f"in coming/large/{LARGE}.json", b'{"id": 1}\n')
    land(project, f"in coming/large/{LARGE + 1}.json", b"")

    first = project.tg("run", "--once", expect=1)
    assert "ZeroDivisionError" in first.out + first.err
    states = {one["name"]: one["state"] for one in project.status()["pipelines"]}
    assert [name for name, state in states.items() if state != "idle"] == ["broken"]
    assert [(row["id"], row["größe"]) for row in project.read("people")] == [(1, 1.7), (2, 1.9)]
    assert project.ids("tall") == [2]
    assert project.pipeline("people")["dead_letters"] == 1
    assert sorted(row["value"] for row in project.read("lines")) == ["", "one", "thrée"]
    assert project.read("parts") == [{"id": 1, "name": "ü"}]
    assert project.ids("packed") == [1, 2]
    assert project.ids("large") == [1]
    large = project.pipeline("large")
    assert (large["checkpoint_hi_inclusive"], large["reader_lo"]) == (LARGE + 1, LARGE)
    for name in ("nothing", "newest", "broken"):
        project.tg("read", name, expect=3)

    # A column more is taken up; `from: now` begins with what came since; a transform was mended.
    mended = TRANSFORMS.replace("1 / 0", "F.lit(1)").replace(
        "    return df\n", '    return df.withColumn("m", F.col("n") + 1)\n'
    )
    project.write("pipelines/all.py", mended)
    land(project, "in coming/packed/2.json.gz", packed(3))
    project.rows("in coming/nothing/a.json", [{"id": 7}])
    project.tg("run", "--once")
    assert [(row["id"], row["m"]) for row in sorted(project.read("packed"), key=lambda row: row["id"])] == [
        (1, None), (2, None), (3, 31),
    ]  # fmt: skip
    assert (project.ids("newest"), project.ids("nothing"), project.ids("broken")) == ([3], [7], [1])

    # Another type for a column, and another name for a pipeline, stop those two.
    project.write("pipelines/all.py", mended.replace('F.col("n") + 1', 'F.lit("text")'))
    yaml = (project.root / "tidegate.yml").read_text()
    project.write("tidegate.yml", yaml.replace("  lines: {source: lines, sinks", "  rows: {source: lines, sinks"))
    land(project, "in coming/packed/3.json.gz", packed(4))
    land(project, "in coming/large/x.json", b"no number\n")
    told = project.tg("run", "--once", expect=1)
    said = told.out + told.err
    assert "column m is long, and the rows have string" in said
    assert "belongs to lines" in said
    assert (project.ids("newest"), project.ids("packed")) == ([3, 4], [1, 2, 3])
