"""Numbered files, landing folders and the generator keep the contract of sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.clock import SystemClock
from tidegate.ledger.memory import MemoryStore
from tidegate.sources.generator import GeneratorSource
from tidegate.sources.landing import LandingSource
from tidegate.sources.numbered import NumberedSource
from tidegate.sources.specs import FileFormat, GeneratorSpec, LandingSpec, NumberedSpec, Reading, WatermarkKind
from tidegate.testing.source_contract import CutSourceContract, NumberingSourceContract

pytestmark = pytest.mark.spark

READING = Reading(format=FileFormat.JSON, schema="id BIGINT")


def write(path: Path, ids: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"id": one}) + "\n" for one in ids))


class TestNumbered(NumberingSourceContract):
    """In a folder, and under names, that a glob or a URI would read in another way."""

    numbers = (3, 4, 6)

    @pytest.fixture(autouse=True)
    def place(self, spark: SparkSession, tmp_path: Path) -> None:
        self.spark = spark
        self.root = tmp_path / "a b, ü%20[1]"
        for number in self.numbers:
            self.add(number)

    def session(self) -> SparkSession:
        return self.spark

    def make(self) -> NumberedSource:
        path = "in {x}/#{number:03d} ?.json"
        spec = NumberedSpec(name="made", watermark=WatermarkKind.CHECKPOINT, path=path, reading=READING)
        return NumberedSource(spec, root=self.root, clock=SystemClock())

    def ids(self, number: int) -> list[int]:
        return [number * 10, number * 10 + 1]

    def add(self, number: int) -> None:
        write(self.root / "in {x}" / f"#{number:03d} ?.json", self.ids(number))


class TestGenerator(NumberingSourceContract):
    """Everything up to the last is there, so what comes later is a longer generator."""

    numbers = (0, 1, 2)

    @pytest.fixture(autouse=True)
    def place(self, spark: SparkSession) -> None:
        self.spark = spark
        self.checkpoints = 3

    def session(self) -> SparkSession:
        return self.spark

    def make(self) -> GeneratorSource:
        spec = GeneratorSpec(
            name="made",
            watermark=WatermarkKind.CHECKPOINT,
            parts=3,
            rows_per_checkpoint=10,
            checkpoints=self.checkpoints,
        )
        return GeneratorSource(spec, store=MemoryStore(), clock=SystemClock())

    def ids(self, number: int) -> list[int]:
        return list(range(number * 10, number * 10 + 10))

    def add(self, number: int) -> None:
        self.checkpoints = max(self.checkpoints, number + 1)

    def hole(self) -> int:
        return max(self.numbers) + 1

    def test_what_arrives_later_is_discovered_later(self) -> None:
        assert self.hole() not in self.make().discover(self.window()).numbers
        self.add(self.hole())
        assert self.hole() in self.make().discover(self.window()).numbers


class TestLanding(CutSourceContract):
    """Also with an empty file, a folder in the folder, and drafts."""

    @pytest.fixture(autouse=True)
    def place(self, spark: SparkSession, tmp_path: Path) -> None:
        self.spark = spark
        self.root = tmp_path / "a b, ü%20[1]"
        self.store = MemoryStore()
        self.landed: list[int] = []
        for _ in range(3):
            self.land()
        write(self.root / "in" / "empty.json", [])
        write(self.root / "in" / ".draft.json", [999])

    def session(self) -> SparkSession:
        return self.spark

    def make(self) -> LandingSource:
        spec = LandingSpec(name="made", watermark=WatermarkKind.INTEGER, path="in", reading=READING)
        return LandingSource(spec, root=self.root, store=self.store)

    def land(self) -> list[int]:
        place = len(self.landed)
        ids = [place * 10, place * 10 + 1]
        self.landed.append(place)
        write(self.root / "in" / f"d {place}" / f"{place} {{x}}*.json", ids)
        return ids

    def all_ids(self) -> list[int]:
        return [one for place in self.landed for one in (place * 10, place * 10 + 1)]
