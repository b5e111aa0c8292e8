"""Declarations become objects of the rooms, at the right places; nothing is made before it is used."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.errors import ConfigError
from tidegate.pipelines.declare import DEAD_SUFFIX, LATE_SUFFIX
from tidegate.project import wiring
from tidegate.project.model import ProjectSpec
from tidegate.sinks.specs import Visibility

YAML = """\
lake: pond
sources:
  views: {type: landing, path: in, format: json, schema: "page STRING, at TIMESTAMP", event_time: at}
  rates: {type: external, table: elsewhere/rates}
pipelines:
  views:
    source: views
    late: side
    sinks:
      - {name: lake, type: delta, table: page_views}
      - {name: second, type: delta, table: copies}
      - {name: files, type: parquet, path: out/views, required: false}
  plain: {source: views, sinks: [{name: files, type: parquet, path: out/plain}]}
"""


@pytest.fixture
def spec(loaded: Callable[..., ProjectSpec]) -> ProjectSpec:
    return loaded(YAML, {"tables/report.sql": "SELECT * FROM views\n"})


@pytest.mark.parametrize(
    ("name", "table", "place"),
    [
        ("views", "page_views", "pond/page_views"),
        ("page_views", "page_views", "pond/page_views"),
        ("copies", "copies", "pond/copies"),
        ("report", "report", "pond/report"),
        ("rates", "rates", "elsewhere/rates"),
        ("views__dead", "views__dead", "pond/views__dead"),
        ("views__late", "views__late", "pond/views__late"),
    ],
)
def test_where_the_tables_are(name: str, table: str, place: str, spec: ProjectSpec) -> None:
    """A pipeline's name means the table of its main sink; an external table is where its owner keeps it."""
    found = wiring.lake_table(spec, name)
    assert (found.name, found.url) == (table, f"{spec.root}/{place}")
    assert not found.exists


def test_a_table_that_is_not_there(spec: ProjectSpec) -> None:
    """The nearest right name; and a pipeline without a delta sink has none."""
    with pytest.raises(ConfigError, match=r"there is no lake table vews; did you mean views\?"):
        wiring.lake_table(spec, "vews")
    with pytest.raises(ConfigError, match=r"pipelines\.plain has no sink of type delta"):
        wiring.lake_table(spec, "plain")


def test_the_sinks_of_a_pipeline(spec: ProjectSpec) -> None:
    """In their order, and the side tables by their suffix."""
    pipeline = spec.pipelines["views"]
    sinks = wiring.open_sinks(spec, pipeline)
    assert list(sinks) == ["lake", "second", "files"]
    kinds = [sink.visibility for sink in sinks.values()]
    assert kinds == [Visibility.PUBLISHING, Visibility.PUBLISHING, Visibility.APPEND]
    assert list(wiring.open_side_sinks(spec, pipeline)) == [DEAD_SUFFIX, LATE_SUFFIX]
    assert list(wiring.open_side_sinks(spec, spec.pipelines["plain"])) == [DEAD_SUFFIX]


def test_the_ledger_and_a_source(spec: ProjectSpec) -> None:
    """Opened by their declarations; Spark is not started, and no folder is made."""
    store = wiring.open_ledger(spec)
    source = wiring.open_source(spec, spec.sources["views"], store)
    assert source.spec is spec.sources["views"]
    assert not wiring.open_spark(spec).started
    assert sorted(path.name for path in spec.root.iterdir()) == ["tables", "tidegate.yml"]
