"""Every setting of tidegate.yml: its name, what it may hold, what it means and what holds without it.

docs/reference/settings.md is generated from here. What the values become is in `conversion`.
"""

from __future__ import annotations

import re
from typing import Final

from tidegate.progress.groups import parse_tolerance
from tidegate.progress.watermarks import ValueKind, parse_watermark
from tidegate.project import places
from tidegate.project.kinds import (
    DURATION,
    NAME,
    SIZE,
    TEXT,
    TRUTH,
    Key,
    Kind,
    Section,
    choice,
    list_of,
    parsed,
    section_kind,
    table_of,
    variants,
    whole,
)
from tidegate.project.schemas import checked_schema
from tidegate.project.syntax import parse_at_least, parse_rate, parse_silence, parse_start_at
from tidegate.sources.specs import DEFAULT_MAX_AHEAD, DEFAULT_MAX_SKEW_US

SOURCE_TYPES: Final = ("numbered", "landing", "generator", "external", "kafka", "delta", "postgres", "mysql")
SINK_TYPES: Final = ("delta", "parquet", "jdbc", "kafka", "redis", "http")
FORMATS: Final = ("json", "csv", "parquet", "avro", "text")
BUILT_FORMATS: Final = ("json", "csv", "parquet", "text")

_PROJECT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


def _project_name(text: str) -> str:
    if not _PROJECT_NAME.fullmatch(text):
        raise ValueError
    return text


def _moment(text: str) -> int:
    return parse_watermark(text, ValueKind.TIMESTAMP).value


LEDGER: Final = parsed("the URL of a ledger, such as sqlite:///.tidegate/ledger.db", places.check_ledger)
LAKE: Final = parsed("a folder", places.check_lake)
FOLDER: Final = parsed("a folder", places.check_folder)
NUMBERED_PATH: Final = parsed("the path of files, with {number} in it", places.check_folder)
SCHEMA: Final = parsed('columns with their types, such as "id BIGINT, at TIMESTAMP"', checked_schema)
MOMENT: Final = parsed("a time with its zone, such as 2026-03-01T11:00:00Z", _moment)
RATE: Final = parsed("a rate such as 500/s or 30/m", parse_rate)
START_AT: Final = parsed("start, now or a checkpoint number", parse_start_at)
SILENCE: Final = parsed("`after N`, as in {2: after 30}", parse_silence)
TOLERANCE: Final = parsed("a duration such as 30s, or a whole number for integer watermarks", parse_tolerance)
AT_LEAST: Final = parsed("`now - 1h`, a time with its zone, or a whole number", parse_at_least)
OPTIONS: Final = table_of(TEXT, "a table of options")


def _by_part(kind: Kind, label: str) -> Kind:
    return table_of(kind, label)


SPARK: Final = Section(
    title="spark",
    keys=(
        Key(name="master", kind=TEXT, doc="Where Spark runs: `local[*]`, `spark://…`, `k8s://…`, `yarn`.",
            shown="local[*]"),
        Key(name="remote", kind=TEXT, doc="A Spark Connect server, `sc://host:15002`, instead of a `master`."),
        Key(name="conf", kind=OPTIONS, doc="Settings of the Spark session, handed on as they are.", default={}),
    ),
)  # fmt: skip

_WATERMARK_WORDS = "event_time", "checkpoint", "timestamp", "integer"
_EVENT_TIME_KEYS = (
    Key(name="max_lateness", kind=DURATION, doc="How far the watermark stays behind the newest event time.",
        default=0, shown="0s"),
    Key(name="idle_timeout", kind=DURATION, shown="never",
        doc="A part that is known to have nothing more to say for this long stops holding the watermark."),
    Key(name="all_idle", kind=choice("max", "hold"), default="max",
        doc="Where the watermark goes when every part is idle: to the newest of them, or it stays (`hold`)."),
    Key(name="max_skew", kind=DURATION, default=DEFAULT_MAX_SKEW_US, shown="5m",
        doc="An event time further in the future than this does not move the watermark."),
)  # fmt: skip


def _watermark(*words: str, shown: str) -> Key:
    doc = (
        "Where the watermark comes from: the rows' event times, the published checkpoint number, or a loader that "
        "advances it (`timestamp` or `integer`)."
    )
    return Key(name="watermark", kind=choice(*words), doc=doc, shown=shown)


_READING_KEYS = (
    Key(name="format", kind=choice(*FORMATS, built=BUILT_FORMATS), doc="How the files are written.", required=True),
    Key(name="schema", kind=SCHEMA, shown="value STRING, for text", doc="The columns; they are never inferred."),
    Key(name="options", kind=OPTIONS, doc="Options of Spark's reader, handed on as they are.", default={}),
)
_EVENT_TIME = Key(name="event_time", kind=TEXT, doc="The TIMESTAMP column that tells when a row happened.")

SOURCES: Final = {
    "numbered": Section(
        title="a source of type numbered",
        keys=(
            Key(name="type", kind=TEXT, doc="`numbered`: files that carry their checkpoint number in their path.",
                required=True),
            Key(name="path", kind=NUMBERED_PATH, required=True,
                doc="The path of a file, with `{number}` (or `{number:08d}`) once, relative to the project."),
            *_READING_KEYS,
            Key(name="first_checkpoint", kind=whole(), shown="the lowest number present at the first plan",
                doc="The lowest number that is read."),
            Key(name="last_checkpoint", kind=whole(), shown="none", doc="The highest number that is read, inclusive."),
            Key(name="max_ahead", kind=whole(1), doc="How far planning may run past a gap.",
                default=DEFAULT_MAX_AHEAD),
            _watermark(*_WATERMARK_WORDS, shown="event_time where a column is named, else checkpoint"),
            _EVENT_TIME,
            *_EVENT_TIME_KEYS,
        ),
    ),
    "landing": Section(
        title="a source of type landing",
        keys=(
            Key(name="type", kind=TEXT, doc="`landing`: files that land in a folder; Tidegate cuts the checkpoints.",
                required=True),
            Key(name="path", kind=FOLDER, doc="The folder, relative to the project.", required=True),
            *_READING_KEYS,
            _watermark("event_time", "timestamp", "integer",
                shown="event_time where a column is named, else timestamp"),
            _EVENT_TIME,
            *_EVENT_TIME_KEYS,
        ),
    ),
    "generator": Section(
        title="a source of type generator",
        keys=(
            Key(name="type", kind=TEXT, doc="`generator`: rows made up by a rule, the same at every reading.",
                required=True),
            Key(name="parts", kind=whole(1), doc="How many parts it has.", default=1),
            Key(name="rows_per_checkpoint", kind=whole(1), doc="Rows of one checkpoint, over all parts.", default=1000),
            Key(name="checkpoints", kind=whole(1), doc="How many checkpoints there are.",
                shown="without end, at `rate`"),
            Key(name="rate", kind=RATE, doc="How many rows come in a time, such as `500/s`.", shown="all at once"),
            Key(name="start", kind=MOMENT, doc="The event time of the first row.", default=0,
                shown="1970-01-01T00:00:00Z"),
            Key(name="step", kind=DURATION, doc="The time between two rows of a part.", default=1_000_000, shown="1s"),
            Key(name="seed", kind=whole(), doc="Another seed gives other rows.", default=0),
            Key(name="skew", kind=_by_part(DURATION, "a table such as {1: 20s}"), default={},
                doc="How far parts are behind: `{1: 20s}`."),
            Key(name="disorder", kind=DURATION, doc="How far event times within a part stray.", default=0, shown="0s"),
            Key(name="silent", kind=_by_part(SILENCE, "a table such as {2: after 30}"), default={},
                doc="Parts that fall silent: `{2: after 30}`, after their 30th checkpoint."),
            _watermark(*_WATERMARK_WORDS, shown="event_time"),
            Key(name="event_time", kind=TEXT, doc="The TIMESTAMP column that tells when a row happened: `at`.",
                shown="at, where the watermark is event_time"),
            *_EVENT_TIME_KEYS,
        ),
    ),
    "external": Section(
        title="a source of type external",
        keys=(
            Key(name="type", kind=TEXT, doc="`external`: a table that somebody else loads, and says how far.",
                required=True),
            Key(name="table", kind=parsed("a folder that holds a Delta table", places.check_external), required=True,
                doc="The folder of a Delta table, relative to the project."),
            _watermark("timestamp", "integer", shown="timestamp"),
            Key(name="parts", kind=list_of(NAME, "a list of names"), default=(), shown="one",
                doc="Loaders that advance on their own; the watermark is the lowest of theirs."),
        ),
    ),
}  # fmt: skip

_SINK_KEYS = (
    Key(name="name", kind=NAME, doc="The name of the sink, unique in its pipeline.", required=True),
    Key(name="required", kind=TRUTH, doc="Whether the commit policy `required` waits for it.", default=True,
        shown="true"),
    Key(name="max_lag", kind=DURATION, shown="none",
        doc="A sink that is further behind is broken: it holds nothing any more and must be rebuilt."),
    Key(name="from", kind=START_AT, doc="Where a sink that joins a running pipeline starts.", shown="start"),
)  # fmt: skip

SINKS: Final = {
    "delta": Section(
        title="a sink of type delta",
        keys=(
            Key(name="type", kind=TEXT, doc="`delta`: a lake table, complete at every version.", required=True),
            Key(name="table", kind=NAME, doc="The name of the lake table.", shown="the name of the pipeline"),
            *_SINK_KEYS,
        ),
    ),
    "parquet": Section(
        title="a sink of type parquet",
        keys=(
            Key(name="type", kind=TEXT, doc="`parquet`: a folder of files with a manifest of what counts.",
                required=True),
            Key(name="path", kind=FOLDER, required=True, doc="The folder, relative to the project."),
            *_SINK_KEYS,
        ),
    ),
}  # fmt: skip

BATCH: Final = Section(
    title="pipelines.NAME.batch",
    keys=(
        Key(name="max_events", kind=whole(1), doc="Rows of one batch.", shown="none"),
        Key(name="max_bytes", kind=SIZE, doc="Bytes of one batch.", shown="none"),
        Key(name="max_ms", kind=whole(1), doc="How long a batch may be collected, in milliseconds.", shown="none"),
        Key(name="max_inflight", kind=whole(1), doc="How many batches may be under way at a time.", default=2),
        Key(name="respect_source_tx", kind=TRUTH, doc="Never cut a transaction of the source in two.", default=True,
            shown="true"),
        Key(name="commit_policy", kind=choice("all", "required", "quorum"), default="required",
            doc="Which sinks must have a checkpoint before it is committed."),
        Key(name="quorum", kind=whole(1), doc="How many sinks, where `commit_policy: quorum`."),
    ),
)  # fmt: skip

RETENTION: Final = Section(
    title="pipelines.NAME.retention",
    keys=(
        Key(name="checkpoints", kind=whole(1), doc="How many of the newest checkpoints are kept.", shown="all"),
        Key(name="age", kind=DURATION, doc="How old data may be and is still kept.", shown="any"),
        Key(name="bytes", kind=SIZE, doc="How many bytes of the newest data are kept.", shown="all"),
        Key(name="interval", kind=DURATION, doc="How often retention steps.", default=10_000_000, shown="10s"),
        Key(name="delay", kind=DURATION, default=120_000_000, shown="2m",
            doc="How long readers have to finish before what they may not start on any more is deleted."),
    ),
)  # fmt: skip

RETRY: Final = Section(
    title="pipelines.NAME.retry",
    keys=(
        Key(name="attempts", kind=whole(1), doc="How often a delivery is tried.", default=5),
        Key(name="base", kind=DURATION, doc="The wait before the second try; it doubles, with jitter.",
            default=200_000, shown="200ms"),
        Key(name="max", kind=DURATION, doc="The longest wait.", default=30_000_000, shown="30s"),
    ),
)  # fmt: skip

PIPELINE: Final = Section(
    title="pipelines.NAME",
    keys=(
        Key(name="source", kind=NAME, doc="The source that it reads.", required=True),
        Key(name="transform", kind=TEXT, shown="none",
            doc="A function from DataFrame to DataFrame: `pipelines/orders.py:clean`."),
        Key(name="mode", kind=choice("concurrent", "sequential"), default="concurrent",
            doc="Many batches under way, or one at a time."),
        Key(name="from", kind=START_AT, doc="Where the first run starts.", shown="start"),
        Key(name="batch", kind=section_kind(BATCH), doc="How large a batch may grow, and when it is committed."),
        Key(name="publish_every", kind=DURATION, default=250_000, shown="250ms",
            doc="How often what is committed becomes visible, at most."),
        Key(name="retention", kind=section_kind(RETENTION), doc="What is kept.", shown="everything"),
        Key(name="retry", kind=section_kind(RETRY), doc="How often a delivery is tried, and how long it waits."),
        Key(name="late", kind=choice("keep", "drop", "side"), default="keep",
            doc="What becomes of late rows; `side` is a table `NAME__late`. They are always counted."),
        Key(name="sinks", kind=list_of(variants("type", SINKS, SINK_TYPES, "a sink"), "a list of sinks"),
            doc="Where the rows go.", required=True),
    ),
)  # fmt: skip

#: A pipeline of `@tg.pipeline(...)`: the function below it is the transform.
PIPELINE_IN_PYTHON: Final = Section(
    title="@tg.pipeline", keys=tuple(key for key in PIPELINE.keys if key.name != "transform")
)

GROUP: Final = Section(
    title="groups.NAME",
    keys=(
        Key(name="sources", kind=list_of(NAME, "a list of sources"), doc="The sources that must agree.", required=True),
        Key(name="tolerance", kind=TOLERANCE, shown="0s",
            doc="How far their watermarks may be apart: a duration, or a number for integer watermarks."),
        Key(name="max_drift", kind=TOLERANCE, shown="none",
            doc="How far a source may run ahead: beyond that it waits for the others; not with `--once`."),
        Key(name="at_least", kind=AT_LEAST, shown="none",
            doc="What every watermark must have reached: `now - 1h`, a time, or a number."),
        Key(name="bootstrap", kind=choice("open", "closed"), default="open",
            doc="Whether a table that was never refreshed may be, before every member has reported."),
        Key(name="stuck_after", kind=DURATION, shown="never",
            doc="A member that neither advances nor beats for this long is stuck."),
        Key(name="when_stuck", kind=choice("warn", "pause"), default="warn", doc="What happens then."),
    ),
)  # fmt: skip

PROJECT: Final = Section(
    title="tidegate.yml",
    keys=(
        Key(name="name", kind=parsed("letters, digits and . _ -", _project_name), doc="The name of the project.",
            shown="the name of its folder"),
        Key(name="ledger", kind=LEDGER, shown="sqlite:///.tidegate/ledger.db",
            doc="Where decisions are kept: a file beside the project, Postgres or a bucket; [which](stores.md)."),
        Key(name="lake", kind=LAKE, doc="The folder of the lake tables, relative to the project.", shown="./lake"),
        Key(name="spark", kind=section_kind(SPARK), doc="How Spark is started or reached."),
        Key(name="sources", kind=table_of(variants("type", SOURCES, SOURCE_TYPES, "a source"), "a table of sources",
            names=True), doc="Where rows come from, by name.", default={}),
        Key(name="pipelines", kind=table_of(section_kind(PIPELINE), "a table of pipelines", names=True),
            doc="Source → transform → sinks, by name.", default={}),
        Key(name="groups", kind=table_of(section_kind(GROUP), "a table of groups", names=True),
            doc="Sources that must agree, by name.", default={}),
    ),
)  # fmt: skip
