"""Settings as they were read become the values of the rooms; what contradicts itself is a problem with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from tidegate.errors import ConfigError
from tidegate.pipelines.declare import Batching, Keeping, Late, PipelineMode, PipelineSpec, TransformRef
from tidegate.progress.groups import Group, WhenStuck
from tidegate.progress.policies import CommitPolicy
from tidegate.progress.retention import Retention
from tidegate.progress.retries import RetryBudget
from tidegate.progress.watermarks import ValueKind
from tidegate.project.kinds import Section, Values
from tidegate.project.problems import Problems, did_you_mean
from tidegate.project.schemas import is_timestamp
from tidegate.project.secrets import Options
from tidegate.project.settings import BATCH, RETENTION, RETRY, SPARK
from tidegate.sinks.specs import DeltaSinkSpec, From, ParquetSinkSpec, SinkSpec, StartAt
from tidegate.sources.specs import (
    GENERATED_SCHEMA,
    EventTime,
    ExternalSpec,
    FileFormat,
    GeneratorSpec,
    LandingSpec,
    NumberedSpec,
    Reading,
    SourceSpec,
    WatermarkKind,
    schema_fields,
)
from tidegate.spark.settings import SparkSettings

T = TypeVar("T")

TEXT_SCHEMA = "value STRING"
_PATIENCE = "max_lateness", "idle_timeout", "all_idle", "max_skew"


def spark(values: Values | None, problems: Problems) -> SparkSettings:
    """How Spark is started or reached."""
    given = values or empty(SPARK)
    if given["master"] is not None and given["remote"] is not None:
        problems.add(given.line_of("remote"), "spark has a master and a remote; it is started or reached, not both")
        return SparkSettings()
    return SparkSettings(master=given["master"], remote=given["remote"], conf=Options(given["conf"]))


# sources


def source(name: str, values: Values, problems: Problems) -> SourceSpec | None:
    """The source; None when it contradicts itself."""
    make = _SOURCES[values["type"]]
    return _made(lambda: make(name, values, problems), values, problems)


def _numbered(name: str, values: Values, problems: Problems) -> NumberedSpec:
    reading = _reading(values, problems)
    event_time = _event_time(values, reading.schema, problems)
    default = WatermarkKind.CHECKPOINT if event_time is None else WatermarkKind.EVENT_TIME
    return NumberedSpec(
        name=name,
        where=_where(values, problems),
        watermark=_watermark(values, default),
        event_time=event_time,
        path=values["path"],
        reading=reading,
        first_checkpoint=values["first_checkpoint"],
        last_checkpoint=values["last_checkpoint"],
        max_ahead=values["max_ahead"],
    )


def _landing(name: str, values: Values, problems: Problems) -> LandingSpec:
    reading = _reading(values, problems)
    event_time = _event_time(values, reading.schema, problems)
    default = WatermarkKind.TIMESTAMP if event_time is None else WatermarkKind.EVENT_TIME
    return LandingSpec(
        name=name,
        where=_where(values, problems),
        watermark=_watermark(values, default),
        event_time=event_time,
        path=values["path"],
        reading=reading,
    )


def _generator(name: str, values: Values, problems: Problems) -> GeneratorSpec:
    watermark = _watermark(values, WatermarkKind.EVENT_TIME)
    column = "at" if watermark is WatermarkKind.EVENT_TIME else None
    return GeneratorSpec(
        name=name,
        where=_where(values, problems),
        watermark=watermark,
        event_time=_event_time(values, GENERATED_SCHEMA, problems, column=column),
        parts=values["parts"],
        rows_per_checkpoint=values["rows_per_checkpoint"],
        checkpoints=values["checkpoints"],
        rate_per_s=values["rate"],
        start_us=values["start"],
        step_us=values["step"],
        seed=values["seed"],
        skew_us=_by_part(values, "skew", problems),
        disorder_us=values["disorder"],
        silent=_by_part(values, "silent", problems),
    )


def _external(name: str, values: Values, problems: Problems) -> ExternalSpec:
    return ExternalSpec(
        name=name,
        where=_where(values, problems),
        watermark=_watermark(values, WatermarkKind.TIMESTAMP),
        table=values["table"],
        parts=values["parts"],
    )


_SOURCES: Mapping[str, Callable[[str, Values, Problems], SourceSpec]] = {
    "numbered": _numbered,
    "landing": _landing,
    "generator": _generator,
    "external": _external,
}


def value_kind(watermark: WatermarkKind) -> ValueKind:
    """Whether the watermark of a source is a time or a number."""
    return watermark.value_kind


def _watermark(values: Values, default: WatermarkKind) -> WatermarkKind:
    return default if values["watermark"] is None else WatermarkKind(values["watermark"])


def _reading(values: Values, problems: Problems) -> Reading:
    format_ = FileFormat(values["format"])
    schema = values["schema"]
    if schema is None and format_ is not FileFormat.TEXT:
        what = f'{values.path}.schema is missing; columns are never inferred: write them, as in "id BIGINT"'
        problems.add(values.line, what)
    if schema is not None and format_ is FileFormat.TEXT and len(schema_fields(schema)) != 1:
        problems.add(values.line_of("schema"), f"{values.path}.schema: text has one column, such as {TEXT_SCHEMA}")
    return Reading(format=format_, schema=schema or TEXT_SCHEMA, options=Options(values["options"]))


def _event_time(values: Values, schema: str, problems: Problems, *, column: str | None = None) -> EventTime | None:
    column = values["event_time"] or column
    if column is None:
        for key in _PATIENCE:
            if values.given(key):
                problems.add(values.line_of(key), f"{values.path}.{key} needs an `event_time:` column")
        return None
    names = [name for name, _ in schema_fields(schema)]
    key, line = f"{values.path}.event_time", values.line_of("event_time")
    if column not in names:
        problems.add(line, f"{key}: {column} is not a column of the schema{did_you_mean(column, names)}")
        return None
    if not is_timestamp(schema, column):
        problems.add(line, f"{key}: {column} is not a TIMESTAMP in the schema")
    return EventTime(
        column=column,
        max_lateness_us=values["max_lateness"],
        idle_timeout_us=values["idle_timeout"],
        max_skew_us=values["max_skew"],
        all_idle=values["all_idle"],
    )


def _by_part(values: Values, key: str, problems: Problems) -> dict[int, int]:
    found: dict[int, int] = {}
    for part, amount in values[key].items():
        if part.isascii() and part.isdigit():
            found[int(part)] = amount
        else:
            problems.add(values.line_of(key), f"{values.path}.{key}: parts are numbers from 0, not {part!r}")
    return found


# pipelines


def pipeline(name: str, values: Values, transform: TransformRef | None, problems: Problems) -> PipelineSpec | None:
    """The pipeline; None when it contradicts itself."""
    batch, keeping, retry = (
        values[key] or empty(section) for key, section in (("batch", BATCH), ("retention", RETENTION), ("retry", RETRY))
    )
    sinks = tuple(_sink(name, sink, problems) for sink in values["sinks"])
    policy = _policy(values, batch, problems)
    if not _sinks_are_right(values, batch, sinks, policy, problems):
        return None
    if retry["base"] > retry["max"]:
        problems.add(retry.line_of("base"), f"{retry.path or values.path + '.retry'}.base is above max")
    return _made(
        lambda: PipelineSpec(
            name=name,
            source=values["source"],
            sinks=tuple(sink for sink in sinks if sink is not None),
            transform=transform,
            mode=PipelineMode(values["mode"]),
            from_=_start(values),
            batch=_batching(batch),
            policy=policy,
            retry=RetryBudget(attempts=retry["attempts"], base_us=retry["base"], max_us=retry["max"]),
            publish_every_us=values["publish_every"],
            retention=_keeping(keeping),
            late=Late(values["late"]),
            where=_where(values, problems),
        ),
        values,
        problems,
    )


def _batching(batch: Values) -> Batching:
    return Batching(
        max_events=batch["max_events"],
        max_bytes=batch["max_bytes"],
        max_us=None if batch["max_ms"] is None else batch["max_ms"] * 1000,
        max_inflight=batch["max_inflight"],
        respect_source_tx=batch["respect_source_tx"],
    )


def _keeping(keeping: Values) -> Keeping:
    keep = Retention(checkpoints=keeping["checkpoints"], age_us=keeping["age"], bytes=keeping["bytes"])
    return Keeping(keep=keep, interval_us=keeping["interval"], delay_us=keeping["delay"])


def _policy(values: Values, batch: Values, problems: Problems) -> CommitPolicy:
    word, quorum = batch["commit_policy"], batch["quorum"]
    if word != "quorum" and quorum is not None:
        what = f"{values.path}.batch.quorum belongs to `commit_policy: quorum`; the policy is {word}"
        problems.add(batch.line_of("quorum"), what)
    if word == "quorum" and quorum is None:
        what = f"{values.path}.batch.quorum is missing; `commit_policy: quorum` needs how many sinks"
        problems.add(batch.line_of("commit_policy"), what)
    if word == "quorum":
        return CommitPolicy.quorum(quorum or 1)
    return CommitPolicy.all() if word == "all" else CommitPolicy.required()


def _sinks_are_right(
    values: Values,
    batch: Values,
    sinks: tuple[SinkSpec | None, ...],
    policy: CommitPolicy,
    problems: Problems,
) -> bool:
    """Whether the sinks are there, have names of their own, and the policy can be met by them."""
    before = len(problems.found)
    right = [sink for sink in sinks if sink is not None]
    if not sinks:
        problems.add(values.line_of("sinks"), f"{values.path}.sinks is empty; a pipeline has at least one")
    for number, (declared, sink) in enumerate(zip(values["sinks"], sinks, strict=True)):
        if sink is not None and any(other is not None and other.name == sink.name for other in sinks[:number]):
            problems.add(declared.line_of("name"), f"{declared.path}.name: there is a sink {sink.name} already")
    impossible = policy.problem({sink.name: sink.required for sink in right}) if len(right) == len(sinks) > 0 else None
    if impossible:
        key = "quorum" if batch.given("quorum") else "commit_policy"
        line = batch.line_of(key) if batch.given(key) else values.line_of("sinks")
        problems.add(line, f"{values.path} {impossible}")
    return len(problems.found) == before and None not in sinks


def _sink(pipeline: str, values: Values, problems: Problems) -> SinkSpec | None:
    return _made(lambda: _made_sink(pipeline, values, problems), values, problems)


def _made_sink(pipeline: str, values: Values, problems: Problems) -> SinkSpec:
    common = {
        "name": values["name"],
        "required": values["required"],
        "max_lag_us": values["max_lag"],
        "from_": _start(values),
        "where": _where(values, problems),
    }
    if values["type"] == "parquet":
        return ParquetSinkSpec(path=values["path"], **common)
    return DeltaSinkSpec(table=values["table"] or pipeline, **common)


def _start(values: Values) -> StartAt:
    return From.START if values["from"] is None else values["from"]


# groups


def group(name: str, values: Values, problems: Problems) -> Group | None:
    """The group; None when it contradicts itself. Whether its sources fit together is judged later."""
    tolerance, drift, members = values["tolerance"], values["max_drift"], values["sources"]
    line, key = values.line_of("sources"), f"{values.path}.sources"
    if not members:
        problems.add(line, f"{key} is empty; a group has at least one source")
    for twice in sorted({name for name in members if members.count(name) > 1}):
        problems.add(line, f"{key}: {twice} is there twice")
    if not members or len(set(members)) < len(members):
        return None
    return _made(
        lambda: Group(
            name=name,
            sources=members,
            tolerance=0 if tolerance is None else tolerance.amount,
            at_least=values["at_least"],
            bootstrap_open=values["bootstrap"] == "open",
            stuck_after_us=values["stuck_after"],
            when_stuck=WhenStuck(values["when_stuck"]),
            max_drift=None if drift is None else drift.amount,
        ),
        values,
        problems,
    )


# what all have in common


def empty(section: Section) -> Values:
    """The section as it is when nothing of it is written."""
    return Values(path="", line=0, values={key.name: key.default for key in section.keys}, lines={})


def _where(values: Values, problems: Problems) -> str:
    return f"{problems.file}:{values.line}"


def _made(make: Callable[[], T], values: Values, problems: Problems) -> T | None:
    """What `make` makes; None when it refuses, or when a problem was found on the way."""
    before = len(problems.found)
    try:
        made = make()
    except ConfigError as refused:
        _add(str(refused.fields["what"]), values, problems)
        return None
    except ValueError as refused:
        _add(f"{values.path}: {refused}", values, problems)
        return None
    return made if len(problems.found) == before else None


def _add(what: str, values: Values, problems: Problems) -> None:
    """Add what a value said of itself, on the line of the first key that it names."""
    problems.add(values.line_of(_first_key(what, values.lines)), what)


def _first_key(what: str, keys: Iterable[str]) -> str:
    words = what.replace(":", " ").replace("`", " ").split()
    known = set(keys) - {"type", "name"}
    return next((word for word in words if word in known), "")
