"""From what a project says of a source to the source."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from tidegate import errors
from tidegate.clock import Clock
from tidegate.ledger.contract import Store
from tidegate.sources.contract import Source
from tidegate.sources.generator import GeneratorSource
from tidegate.sources.landing import LandingSource
from tidegate.sources.numbered import NumberedSource
from tidegate.sources.specs import (
    ExternalSpec,
    FileFormat,
    GeneratorSpec,
    LandingSpec,
    NumberedSpec,
    SourceBase,
    SourceSpec,
    schema_fields,
)
from tidegate.spark.files import OWN_OPTIONS

_TIMES = ("TIMESTAMP", "DATE", "STRING")


def open_source(spec: SourceSpec, store: Store, root: Path, clock: Clock) -> Source:
    """The source, for one pipeline and run. Nothing is read and Spark is not started.

    :raises ConfigError: the source cannot be read as it is declared, or by no pipeline at all.
    """
    match spec:
        case NumberedSpec():
            _check_reading(spec)
            return NumberedSource(spec, root=root, clock=clock)
        case LandingSpec():
            _check_reading(spec)
            return LandingSource(spec, root=root, store=store)
        case GeneratorSpec():
            if spec.event_time is not None and spec.event_time.column != "at":
                raise spec.refused("event_time: the time of a generated row is its column `at`")
            return GeneratorSource(spec, store=store, clock=clock)
        case ExternalSpec():
            raise spec.refused("is external: somebody else loads it, and no pipeline reads it")
        case _:
            assert_never(spec)


def _check_reading(spec: NumberedSpec | LandingSpec) -> None:
    reading = spec.reading
    own = sorted(option for option in reading.options if option.lower() in OWN_OPTIONS)
    if own:
        raise spec.refused(f"options: {own[0]} is set by Tidegate, which keeps corrupt lines apart")
    hidden = [name for name in reading.columns if name.lower().startswith("__tidegate")]
    if hidden:
        raise spec.refused(f"schema: {hidden[0]} starts with __tidegate, which is for columns of Tidegate's own")
    kinds = {name: kind.upper() for name, kind in schema_fields(reading.schema)}
    if reading.format is FileFormat.TEXT and (len(kinds) != 1 or not next(iter(kinds.values())).startswith("STRING")):
        raise spec.refused("schema: text has one column of type STRING, such as `value STRING`")
    _check_event_time(spec, kinds)


def _check_event_time(spec: SourceBase, kinds: dict[str, str]) -> None:
    if spec.event_time is None:
        return
    kind = kinds[spec.event_time.column]
    if not kind.startswith(_TIMES):
        raise errors.ConfigError(
            where=spec.where,
            what=f"sources.{spec.name} event_time: {spec.event_time.column} is a {kind}, not a time",
            hint="declare the column as TIMESTAMP",
        )
