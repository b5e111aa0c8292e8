"""A page of projects that cannot be: each is told with its file, line, key and, where there is one, the right word."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.project.loading import load
from tidegate.project.problems import BadProject

RIGHT = """\
sources:
  orders: {type: landing, path: in/orders, format: json, schema: "id BIGINT, at TIMESTAMP"}
  numbers: {type: numbered, path: "in/n/{number}.json", format: json, schema: "id BIGINT"}
  rates: {type: external, table: external/rates}
"""
PIPELINE = """\
pipelines:
  orders:
    source: orders
"""
SINK = "    sinks: [{name: lake, type: delta}]\n"


def source(line: str) -> str:
    return f"sources:\n  orders:\n    {line}\n"


def landing(line: str) -> str:
    return source(f'type: landing\n    path: in\n    format: json\n    schema: "id BIGINT, at TIMESTAMP"\n    {line}')


def pipeline(line: str) -> str:
    """The line is number 8."""
    return f"{RIGHT}{PIPELINE}    {line}\n{SINK if 'sinks:' not in line else ''}"


def group(text: str) -> str:
    """The group is on line 6."""
    return f"{RIGHT}groups:\n  g: {{{text}}}\n"


CASES = {
    # the text itself
    "not YAML": ("sources: [", "1: this is not YAML: did not find expected node content"),
    "a tab": ("sources:\n\torders: 1\n", "2: this is not YAML: found character that cannot start any token"),
    "a list": ("- sources\n", "1: the file must be a table, not a list"),
    "twice": ("name: a\nname: b\n", "2: name is written twice (first on line 1)"),
    "an alias to itself": ("sources: &a\n  x: *a\n", "2: sources.x must be a table with a `type`, not a list"),
    # keys
    "unknown key": ("nme: shop\n", "1: nme is not a setting; did you mean name?"),
    "unknown key, nothing near": (
        "zzz: 1\n",
        "1: zzz is not a setting; there is groups, lake, ledger, name, pipelines, sources, spark",
    ),
    "the one of the design": (
        pipeline("batch:\n      comit_policy: all"),
        "9: pipelines.orders.batch.comit_policy is not a setting; did you mean commit_policy?",
    ),
    "key of another type": (
        landing("first_checkpoint: 1"),
        "7: sources.orders.first_checkpoint is not a setting of a source of type landing; there is all_idle, "
        "event_time, format, idle_timeout, max_lateness, max_skew, options, path, schema, type, watermark",
    ),
    "retention": (
        pipeline("retention: {checkpionts: 3}"),
        "8: pipelines.orders.retention.checkpionts is not a setting; did you mean checkpoints?",
    ),
    "sink key": (
        pipeline("sinks: [{name: a, type: delta, tabel: x}]"),
        "8: pipelines.orders.sinks[0].tabel is not a setting of a sink of type delta; did you mean table?",
    ),
    "in capitals": ("Name: shop\n", "1: Name is not a setting; did you mean name?"),
    # names
    "project name": ("name: my shop\n", "1: name must be letters, digits and . _ -, not 'my shop'"),
    "source name": (
        "sources:\n  my-orders: {type: external, table: x}\n",
        "2: sources.my-orders cannot be a name: a name is a letter, then letters, digits and _, at most 63",
    ),
    "reserved name": (
        pipeline("sinks: [{name: a, type: delta, table: x__dead}]"),
        "8: pipelines.orders.sinks[0].table must be a name, not 'x__dead' "
        "(names that end in __dead and __late belong to Tidegate's side tables)",
    ),
    # values
    "a list for text": ("lake: [a]\n", "1: lake must be a folder, not a list"),
    "nothing for what is required": (
        source("type: external\n    table:"),
        "4: sources.orders.table must be a folder that holds a Delta table, not nothing",
    ),
    "missing": (
        source("type: landing\n    path: in\n    format: text").replace("    path: in\n", ""),
        "2: sources.orders.path is missing; it must be a folder",
    ),
    "no type": (
        source("path: x"),
        "2: sources.orders.type is missing; there is numbered, landing, generator, external",
    ),
    "wrong type": (source("type: lnding"), "3: sources.orders.type cannot be 'lnding'; did you mean landing?"),
    "not built: kafka": (
        source("type: kafka\n    topics: [a]"),
        "3: sources.orders.type: kafka is not built yet; there is numbered, landing, generator or external",
    ),
    "not built: jdbc": (
        pipeline("sinks: [{name: a, type: jdbc}]"),
        "8: pipelines.orders.sinks[0].type: jdbc is not built yet; there is delta or parquet",
    ),
    "not built: avro": (
        source("type: landing\n    path: in\n    format: avro"),
        "5: sources.orders.format: avro is not built yet; there is json, csv, parquet or text",
    ),
    "ledger of no kind": (
        "ledger: mysql://h/db\n",
        "1: ledger must be the URL of a ledger, such as sqlite:///.tidegate/ledger.db, not 'mysql://h/db' "
        "(there are sqlite:///FILE, postgresql://HOST/DATABASE, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, ",
    ),
    "not built: lake": (
        "lake: s3://bucket/lake\n",
        "1: lake must be a folder, not 's3://bucket/lake' "
        "(s3: places are not built yet; there are folders of this machine)",
    ),
    "not built: external in Postgres": (
        source("type: external\n    table: postgresql://h/db#a.b"),
        "4: sources.orders.table must be a folder that holds a Delta table, not 'postgresql://h/db#a.b' "
        "(tables of Postgres are not built yet; there are folders of Delta tables)",
    ),
    "sqlite with two slashes": (
        "ledger: sqlite://x.db\n",
        "1: ledger must be the URL of a ledger, such as sqlite:///.tidegate/ledger.db, not 'sqlite://x.db' "
        "(it is written sqlite:///FILE, as in sqlite:///.tidegate/ledger.db)",
    ),
    "a home": (
        "lake: ~/lake\n",
        "1: lake must be a folder, not '~/lake' (~ is not expanded here; write ${HOME})",
    ),
    "a duration without unit": (
        landing("idle_timeout: 30"),
        "7: sources.orders.idle_timeout must be a duration such as 500ms, 30s, 5m, 2h or 30d, not '30' "
        "(a bare number has no unit)",
    ),
    "a duration of nonsense": (
        pipeline("publish_every: soon"),
        "8: pipelines.orders.publish_every must be a duration such as 500ms, 30s, 5m, 2h or 30d, not 'soon'",
    ),
    "a size of nonsense": (
        pipeline("batch: {max_bytes: 5MB}"),
        "8: pipelines.orders.batch.max_bytes must be a size such as 64KiB, 8MiB or 1GiB, or a number of bytes, "
        "not '5MB'",
    ),
    "a number of zero": (
        pipeline("batch: {max_events: 0}"),
        "8: pipelines.orders.batch.max_events must be a whole number, 1 or more, not '0'",
    ),
    "a number that is none": (
        pipeline("batch: {max_inflight: many}"),
        "8: pipelines.orders.batch.max_inflight must be a whole number, 1 or more, not 'many'",
    ),
    "a truth": (
        pipeline("sinks: [{name: a, type: delta, required: yes}]"),
        "8: pipelines.orders.sinks[0].required must be true or false, not 'yes'",
    ),
    "a choice": (
        pipeline("mode: sequental"),
        "8: pipelines.orders.mode cannot be 'sequental'; did you mean sequential?",
    ),
    "a start": (
        pipeline("from: beginning"),
        "8: pipelines.orders.from must be start, now or a checkpoint number, not 'beginning'",
    ),
    "a rate": (
        source("type: generator\n    rate: 500"),
        "4: sources.orders.rate must be a rate such as 500/s or 30/m, not '500'",
    ),
    "a time without zone": (
        source("type: generator\n    checkpoints: 1\n    start: 2026-03-01"),
        "5: sources.orders.start must be a time with its zone, such as 2026-03-01T11:00:00Z, not '2026-03-01'",
    ),
    "a silence": (
        source("type: generator\n    checkpoints: 1\n    silent: {0: 30}"),
        "5: sources.orders.silent.0 must be `after N`, as in {2: after 30}, not '30'",
    ),
    # schemas
    "a type that is none": (
        source('type: landing\n    path: in\n    format: json\n    schema: "id BIGNT"'),
        '6: sources.orders.schema must be columns with their types, such as "id BIGINT, at TIMESTAMP", not '
        "'id BIGNT' (id: BIGNT is not a type; there is BIGINT, INT, DOUBLE, STRING, BOOLEAN, TIMESTAMP, DATE, "
        "DECIMAL(p, s), BINARY, ARRAY, MAP and STRUCT)",
    ),
    "no schema": (
        source("type: landing\n    path: in\n    format: json"),
        '2: sources.orders.schema is missing; columns are never inferred: write them, as in "id BIGINT"',
    ),
    "two columns of text": (
        source('type: landing\n    path: in\n    format: text\n    schema: "a STRING, b STRING"'),
        "6: sources.orders.schema: text has one column, such as value STRING",
    ),
    # sources
    "no number in the path": (
        source('type: numbered\n    path: in/x.json\n    format: json\n    schema: "id BIGINT"'),
        "4: sources.orders path: in/x.json must hold {number} (or {number:08d}) exactly once",
    ),
    "last below first": (
        RIGHT.replace('schema: "id BIGINT"}', 'schema: "id BIGINT", first_checkpoint: 9, last_checkpoint: 3}'),
        "3: sources.numbers last_checkpoint 3 is below first_checkpoint 9",
    ),
    "event time that is no column": (
        landing("event_time: att"),
        "7: sources.orders.event_time: att is not a column of the schema; did you mean at?",
    ),
    "event time that is no time": (
        landing("event_time: id"),
        "7: sources.orders.event_time: id is not a TIMESTAMP in the schema",
    ),
    "event time without a column": (
        landing("watermark: event_time"),
        "7: sources.orders watermark: event_time needs an `event_time:` column",
    ),
    "advanced and from the rows": (
        landing("event_time: at\n    watermark: integer"),
        "7: sources.orders has an `event_time:` column, so its watermark cannot also be advanced by hand",
    ),
    "patience without event time": (
        landing("max_lateness: 5s"),
        "7: sources.orders.max_lateness needs an `event_time:` column",
    ),
    "checkpoint of a landing folder": (
        landing("watermark: checkpoint"),
        "7: sources.orders.watermark cannot be 'checkpoint'; there is event_time, integer, timestamp",
    ),
    "generator without end": (
        source("type: generator"),
        "2: sources.orders needs `checkpoints:` (how many there are) or `rate:` (how fast they come)",
    ),
    "generator of a part that is not there": (
        source("type: generator\n    checkpoints: 1\n    skew: {3: 1s}"),
        "5: sources.orders skew: there is no part 3 (it has 1, counted from 0)",
    ),
    "generator of a part that is no number": (
        source("type: generator\n    checkpoints: 1\n    skew: {eu: 1s}"),
        "5: sources.orders.skew: parts are numbers from 0, not 'eu'",
    ),
    "parts twice": (
        source("type: external\n    table: x\n    parts: [a, a]"),
        "5: sources.orders parts are named twice",
    ),
    # pipelines
    "no sinks": (f"{RIGHT}{PIPELINE}", "6: pipelines.orders.sinks is missing; it must be a list of sinks"),
    "an empty list of sinks": (
        pipeline("sinks: []"),
        "8: pipelines.orders.sinks is empty; a pipeline has at least one",
    ),
    "unknown source": (
        f"{RIGHT}pipelines:\n  orders:\n    source: oders\n{SINK}",
        "7: pipelines.orders.source: there is no source oders; did you mean orders?",
    ),
    "no source at all": (
        f"pipelines:\n  orders:\n    source: orders\n{SINK}",
        "3: pipelines.orders.source: there is no source orders; the project has no sources",
    ),
    "an external source": (
        f"{RIGHT}pipelines:\n  p:\n    source: rates\n{SINK}",
        "7: pipelines.p.source: rates is external: tables read it by its name, and no pipeline moves its rows",
    ),
    "quorum elsewhere": (
        pipeline("batch: {quorum: 1}"),
        "8: pipelines.orders.batch.quorum belongs to `commit_policy: quorum`; the policy is required",
    ),
    "quorum without a number": (
        pipeline("batch: {commit_policy: quorum}"),
        "8: pipelines.orders.batch.quorum is missing; `commit_policy: quorum` needs how many sinks",
    ),
    "quorum of too many": (
        pipeline("batch: {commit_policy: quorum, quorum: 2}"),
        "8: pipelines.orders has a quorum of 2, but only 1 sink",
    ),
    "nobody required": (
        pipeline("sinks: [{name: a, type: delta, required: false}]"),
        "8: pipelines.orders has the commit policy required, but none of its sinks is required",
    ),
    "two sinks of one name": (
        pipeline("sinks:\n      - {name: a, type: delta}\n      - {name: a, type: parquet, path: out}"),
        "10: pipelines.orders.sinks[1].name: there is a sink a already",
    ),
    "two sinks of one table": (
        pipeline("sinks:\n      - {name: a, type: delta, table: t}\n      - {name: b, type: delta, table: T}"),
        "10: table T of sink b of pipeline orders: another sink writes that table already",
    ),
    "retry upside down": (
        pipeline("retry: {base: 2m}"),
        "8: pipelines.orders.retry.base is above max",
    ),
    "late without event time": (
        pipeline("late: drop"),
        "8: pipelines.orders.late: source orders has no `event_time:`, so none of its rows is late",
    ),
    "a sink in the lake": (
        pipeline("sinks: [{name: a, type: parquet, path: lake/x}]"),
        "8: sink a of pipeline orders: lake/x is inside or around the folder of the lake",
    ),
    "a sink where it is read": (
        pipeline("sinks: [{name: a, type: parquet, path: in/../in/orders/out}]"),
        "8: sink a of pipeline orders: in/../in/orders/out is inside or around the folder of source orders",
    ),
    "a source that reads what is written": (
        landing("watermark: integer").replace("path: in", "path: ."),
        "4: sources.orders.path: . is inside or around the folder of the lake",
    ),
    "a source in Tidegate's folder": (
        landing("watermark: integer").replace("path: in", "path: .tidegate/x"),
        "4: sources.orders.path: .tidegate/x is inside or around the folder of Tidegate's own folder",
    ),
    "a number to begin at in a landing folder": (
        pipeline("from: 5"),
        "8: pipelines.orders.from: source orders has no numbers of its own to begin at; say start or now",
    ),
    "two sinks in one folder": (
        pipeline("sinks:\n      - {name: a, type: parquet, path: out}\n      - {name: b, type: parquet, path: out/b}"),
        "10: sink b of pipeline orders: out/b is inside or around the folder of sink a of pipeline orders",
    ),
    # transforms
    "a transform without a function": (
        pipeline("transform: pipelines/orders.py"),
        "8: pipelines.orders.transform: 'pipelines/orders.py' names no function; write file and function, as in "
        "pipelines/orders.py:clean",
    ),
    "a transform that is not there": (
        pipeline("transform: pipelines/orders.py:clean"),
        "8: pipelines.orders.transform: there is no file pipelines/orders.py",
    ),
    # groups
    "an empty group": (group("sources: []"), "6: groups.g.sources is empty; a group has at least one source"),
    "a source twice": (group("sources: [rates, rates]"), "6: groups.g.sources: rates is there twice"),
    "a member that is not there": (
        group("sources: [rates, order]"),
        "6: groups.g.sources: there is no source order; did you mean orders?",
    ),
    "mixed kinds": (
        group("sources: [orders, rates, numbers]"),
        "6: groups.g.sources mixes kinds of watermarks: orders, rates (timestamp) and numbers (integer); "
        "a group has one kind",
    ),
    "a tolerance of numbers for times": (
        group("sources: [orders, rates], tolerance: 5"),
        "6: groups.g.tolerance must be a duration such as 30s: the watermarks of its sources are timestamps",
    ),
    "a tolerance of time for numbers": (
        group("sources: [numbers], tolerance: 5s"),
        "6: groups.g.tolerance must be a whole number: the watermarks of its sources are integers",
    ),
    "a bound of time for numbers": (
        group("sources: [numbers], at_least: now - 1h"),
        "6: groups.g.at_least must be a whole number: the watermarks of its sources are integers",
    ),
    "a bound that is none": (
        group("sources: [orders], at_least: yesterday"),
        "6: groups.g.at_least must be `now - 1h`, a time with its zone, or a whole number, not 'yesterday'",
    ),
    # names that clash
    "pipeline and external": (
        f"{RIGHT}pipelines:\n  rates:\n    source: orders\n{SINK}",
        "6: pipeline rates clashes with external source rates (tidegate.yml:4)",
    ),
    "sink and pipeline": (
        f"{RIGHT}{PIPELINE}{SINK}  p:\n    source: orders\n    sinks: [{{name: a, type: delta, table: Orders}}]\n",
        "11: table Orders of sink a of pipeline p clashes with pipeline orders (tidegate.yml:6), "
        "and Orders differs from it only in case",
    ),
    # Spark
    "master and remote": (
        "spark:\n  master: local\n  remote: sc://h\n",
        "3: spark has a master and a remote; it is started or reached, not both",
    ),
}


@pytest.mark.parametrize(("yaml", "said"), CASES.values(), ids=CASES.keys())
def test_a_wrong_file_is_told_with_its_line(yaml: str, said: str, problems: Callable[..., list[str]]) -> None:
    """One sentence, and it names the line, the key and what would be right."""
    assert any(line.startswith(f"tidegate.yml:{said}") for line in problems(yaml)), problems(yaml)


def test_the_page_begins_with_files_that_are_right(loaded: Callable[..., object]) -> None:
    """Negative control: without its one mistake, the base of the page loads."""
    loaded(pipeline("mode: concurrent") + "groups:\n  g: {sources: [orders, rates], tolerance: 5s}\n")
    loaded(landing("event_time: at"))


def test_everything_wrong_is_told_at_once_in_the_order_of_lines(problems: Callable[..., list[str]]) -> None:
    """Five mistakes, five lines, one run."""
    yaml = "nme: x\nsources:\n  a: {type: kafka}\n  b: {type: external, tabel: x}\npipelines:\n  p: {source: c}\n"
    assert [line.split(":")[1] for line in problems(yaml)] == ["1", "3", "4", "4", "6"]


def test_a_name_counts_although_the_rest_of_it_is_wrong(problems: Callable[..., list[str]]) -> None:
    """A source that has a mistake is not also unknown to its pipeline."""
    yaml = f"sources:\n  orders: {{type: kafka}}\n{PIPELINE}{SINK}groups:\n  g: {{sources: [orders]}}\n"
    assert len(problems(yaml)) == 1


def test_a_text_that_is_no_utf8_is_told(write: Callable[..., object]) -> None:
    """No traceback for a file in another encoding."""
    root = write()
    (root / "tidegate.yml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(BadProject, match=r"tidegate\.yml: this is not text in UTF-8"):
        load(root)


class TestOtherFiles:
    """What is wrong in SQL and Python files is told with their line."""

    def test_a_function_that_is_not_there(self, problems: Callable[..., list[str]]) -> None:
        """The nearest function of the file is named."""
        files = {"pipelines/orders.py": "def clean(df):\n    return df\n"}
        yaml = pipeline("transform: pipelines/orders.py:claen")
        what = (
            "tidegate.yml:8: pipelines.orders.transform: there is no claen in pipelines/orders.py; did you mean clean?"
        )
        assert problems(yaml, files) == [what]

    def test_a_file_that_is_not_there(self, problems: Callable[..., list[str]]) -> None:
        """The nearest file is named."""
        yaml = pipeline("transform: pipelines/order.py:clean")
        assert problems(yaml, {"pipelines/orders.py": ""})[0].endswith("did you mean pipelines/orders.py?")

    def test_a_file_outside_of_the_project(self, problems: Callable[..., list[str]]) -> None:
        """A project is a folder."""
        yaml = pipeline("transform: ../outside.py:clean")
        assert problems(yaml, {"../outside.py": "def clean(df): ...\n"})[0].endswith("is outside of the project")

    def test_a_file_that_is_not_python(self, problems: Callable[..., list[str]]) -> None:
        """The line is that of the Python file."""
        files = {"pipelines/orders.py": "def clean(df):\n    return df +\n"}
        told = problems(pipeline("transform: pipelines/orders.py:clean"), files)
        assert told == ["pipelines/orders.py:2: this is not Python: invalid syntax"]

    def test_an_option_of_a_table(self, problems: Callable[..., list[str]]) -> None:
        """Options stand in the comment above the query."""
        told = problems("", {"tables/report.sql": "-- a report\n-- gatng: gate\nSELECT 1\n"})
        assert told == ["tables/report.sql:2: gatng is not an option of a table; did you mean gating?"]

    def test_a_table_without_a_query(self, problems: Callable[..., list[str]]) -> None:
        """Nothing below the comment."""
        assert problems("", {"tables/report.sql": "-- gating: gate\n"}) == [
            "tables/report.sql:1: table report has no query"
        ]

    def test_the_name_of_a_table(self, problems: Callable[..., list[str]]) -> None:
        """A file's name is the table's."""
        told = problems("", {"tables/my-report.sql": "SELECT 1\n"})
        assert told[0].startswith("tables/my-report.sql:1: 'my-report' cannot be a name")

    def test_a_table_and_a_pipeline_of_one_name(self, problems: Callable[..., list[str]]) -> None:
        """A name in a query means one thing."""
        told = problems(pipeline("mode: concurrent"), {"tables/orders.sql": "SELECT 1\n"})
        assert told == ["tables/orders.sql:1: table orders clashes with pipeline orders (tidegate.yml:6)"]

    def test_a_table_that_is_there_in_sql_and_in_python(self, problems: Callable[..., list[str]]) -> None:
        """Two files, one name."""
        python = "import tidegate as tg\n\n@tg.table\ndef report(orders):\n    return orders\n"
        told = problems(pipeline("mode: concurrent"), {"tables/report.sql": "SELECT 1\n", "tables/more.py": python})
        assert told == ["tables/more.py:3: table report clashes with table report (tables/report.sql:1)"]
