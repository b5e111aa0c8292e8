"""One Spark for all tests of tables, and project folders that are run in this process beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import tidegate as tg
from tests.spark.sessions import small_session
from tidegate.cli import main

EXTERNAL = """\
name: shop
sources:
  orders: {type: external, table: external/orders, watermark: integer}
  order_lines: {type: external, table: external/order_lines, watermark: integer}
  fx_rates: {type: external, table: external/fx_rates, watermark: timestamp}
  regions: {type: external, table: external/regions, watermark: integer, parts: [eu, us]}
"""
PAIR = "groups: {pair: {sources: [orders, order_lines]}}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Shop:
    """A project folder, with loaders that write and say how far they are."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capsys = capsys

    def declare(self, yaml: str, /, **tables: str) -> None:
        """The project's settings and its tables; those of before that are not named stay."""
        self.write("tidegate.yml", yaml)
        for name, query in tables.items():
            self.write(f"tables/{name}.sql", query)

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def append(self, name: str, *ids: int, mode: Literal["append", "overwrite"] = "append", **more: object) -> int:
        """A commit to an external table by a program that knows nothing of us; its version."""
        place = str(self.root / "external" / name)
        columns = {"id": pa.array(ids, pa.int64()), **{key: [value] * len(ids) for key, value in more.items()}}
        write_deltalake(place, pa.table(columns), mode=mode)
        return DeltaTable(place).version()

    def load(self, name: str, watermark: int, *ids: int, **more: object) -> None:
        """Rows, and the word of their loader about them."""
        version = self.append(name, *ids, **more)
        self.tg("advance", name, str(watermark), "--version", str(version))

    def open(self) -> tg.Project:
        return tg.open(self.root)

    def tg(self, *argv: str, expect: int = 0) -> Answer:
        """A command line, run here."""
        code = main(["--project", str(self.root), *argv])
        captured = self._capsys.readouterr()
        assert code == expect, f"tidegate {' '.join(argv)} ended with {code}\n{captured.out}\n{captured.err}"
        return Answer(code=code, out=captured.out, err=captured.err)

    def run(self, *, expect: int = 0) -> Answer:
        """Everything that is there now."""
        return self.tg("run", "--once", expect=expect)

    def rows(self, name: str, *argv: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.tg("read", name, "--format", "json", *argv).json
        return sorted(found, key=lambda row: str(row.get("id", row)))

    def ids(self, name: str, *argv: str) -> list[Any]:
        return [row["id"] for row in self.rows(name, *argv)]

    def table(self, name: str) -> dict[str, Any]:
        return next(one for one in self.tg("status", "--json").json["tables"] if one["name"] == name)

    def explain(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.tg("explain", name, "--json").json
        return found

    def lake(self, name: str) -> DeltaTable:
        """The table as another reader of Delta has it."""
        return DeltaTable(str(self.root / "lake" / name))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with small_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shop:
    """A folder with nothing declared yet. Runs in it find the Spark that is there."""
    return Shop(tmp_path / "shop", capsys)
