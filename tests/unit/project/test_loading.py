"""A folder becomes the values of the rooms: defaults, units, the environment, and what loading does not touch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml as pyyaml

from tests.unit.project.conftest import Write
from tidegate.errors import ConfigError
from tidegate.pipelines.declare import Late, PipelineMode
from tidegate.progress.cut import Mode
from tidegate.progress.watermarks import Watermark
from tidegate.project.loading import find, load
from tidegate.project.model import ProjectSpec
from tidegate.project.problems import BadProject
from tidegate.sinks.specs import DeltaSinkSpec, From, ParquetSinkSpec
from tidegate.sources.specs import ExternalSpec, GeneratorSpec, LandingSpec, NumberedSpec, WatermarkKind

Loaded = Callable[..., ProjectSpec]
Problems = Callable[..., list[str]]

BLACKBOX = Path(__file__).parents[2] / "blackbox"
HEAVY = ("pyspark", "numpy", "sqlglot", "pyarrow", "deltalake", "obstore", "typer", "rich", "zstandard")

#: Section 1 of the surface's design, with what comes with later issues taken out.
EXAMPLE = """\
name: shop
ledger: sqlite:///.tidegate/ledger.db
lake: ./lake
spark:
  master: local[*]
  conf: {spark.sql.shuffle.partitions: 4}

sources:
  ledger_entries:
    type: numbered
    path: incoming/entries/{number}.json
    format: json
    schema: "id BIGINT, at TIMESTAMP, amount DOUBLE"
    first_checkpoint: 1000
    last_checkpoint: 2000
    max_ahead: 10000
  orders:
    type: landing
    path: incoming/orders
    format: json
    schema: "id BIGINT, at TIMESTAMP, amount DOUBLE"
    watermark: timestamp
  order_lines:
    type: landing
    path: incoming/order_lines
    format: json
    schema: "order_id BIGINT, at TIMESTAMP"
    watermark: timestamp
  page_views:
    type: landing
    path: incoming/page_views
    format: json
    schema: "page STRING, at TIMESTAMP"
    watermark: event_time
    event_time: at
    max_lateness: 30s
    idle_timeout: 1m
  fx_rates:
    type: external
    table: external/fx_rates
    watermark: timestamp
    parts: [eu, us]
  synthetic:
    type: generator
    parts: 4
    rows_per_checkpoint: 1000
    checkpoints: 100
    rate: 500/s
    start: 2026-03-01T11:00:00Z
    step: 1s
    seed: 7
    skew: {0: 0s, 1: 20s}
    disorder: 5s
    silent: {2: after 30}

pipelines:
  orders:
    source: orders
    transform: pipelines/orders.py:clean
    mode: concurrent
    from: start
    batch:
      max_events: 100000
      max_bytes: 64MiB
      max_ms: 1000
      max_inflight: 4
      respect_source_tx: true
      commit_policy: required
    publish_every: 250ms
    retention: {checkpoints: 10000, age: 30d, bytes: 50GiB, interval: 10s, delay: 2m}
    late: keep
    sinks:
      - {name: lake,  type: delta, table: orders, required: true}
      - {name: files, type: parquet, path: out/orders, required: false, max_lag: 1d}

groups:
  order_pipeline: {sources: [orders, order_lines], tolerance: 0s, bootstrap: open, stuck_after: 30m, when_stuck: warn}
  rates: {sources: [fx_rates], at_least: now - 1h}
"""
FILES = {
    "pipelines/orders.py": "def clean(df):\n    return df\n",
    "tables/order_report.sql": (
        "-- gating: gate                 none | gate | hold_back (left out: inferred)\n-- tolerance: 30s\n"
        "-- schedule: on_advance         on_advance | every 30s\n-- refresh: auto\n-- over: history\n"
        "SELECT * FROM orders\n"
    ),
}
DAY_US = 86_400_000_000


class TestTheExampleOfTheDesign:
    """The page that people copy from."""

    @pytest.fixture
    def shop(self, loaded: Loaded) -> ProjectSpec:
        return loaded(EXAMPLE, FILES)

    def test_sources(self, shop: ProjectSpec) -> None:
        """Each type, with the kind of watermark that holds when none is said."""
        numbered, landing, _, views, rates, synthetic = shop.sources.values()
        assert isinstance(numbered, NumberedSpec)
        assert (numbered.first, numbered.last, numbered.watermark) == (1000, 2000, WatermarkKind.CHECKPOINT)
        assert isinstance(landing, LandingSpec)
        assert landing.watermark is WatermarkKind.TIMESTAMP
        assert views.event_time is not None
        assert (views.event_time.max_lateness_us, views.event_time.idle_timeout_us) == (30_000_000, 60_000_000)
        assert isinstance(rates, ExternalSpec)
        assert rates.parts == ("eu", "us")
        assert isinstance(synthetic, GeneratorSpec)
        assert (synthetic.skew_us, synthetic.silent) == ({0: 0, 1: 20_000_000}, {2: 30})
        assert (synthetic.rate_per_s, synthetic.watermark) == (500.0, WatermarkKind.EVENT_TIME)

    def test_the_pipeline(self, shop: ProjectSpec) -> None:
        """Units are gone: microseconds and bytes."""
        orders = shop.pipelines["orders"]
        assert (orders.batch.max_bytes, orders.batch.max_us, orders.batch.max_inflight) == (64 << 20, 1_000_000, 4)
        keep = orders.retention.keep
        assert (keep.checkpoints, keep.age_us, keep.bytes) == (10_000, 30 * DAY_US, 50 << 30)
        assert (orders.retention.interval_us, orders.retention.delay_us) == (10_000_000, 120_000_000)
        lake, files = orders.sinks
        assert isinstance(lake, DeltaSinkSpec)
        assert isinstance(files, ParquetSinkSpec)
        assert (lake.table, lake.required, files.required, files.max_lag_us) == ("orders", True, False, DAY_US)
        assert orders.where == "tidegate.yml:57"

    def test_groups_and_tables(self, shop: ProjectSpec) -> None:
        """A remark behind an option is no part of it."""
        assert shop.groups["order_pipeline"].sources == ("orders", "order_lines")
        assert shop.groups["order_pipeline"].stuck_after_us == 1_800_000_000
        bound = shop.groups["rates"].at_least
        assert bound is not None
        assert bound.now_minus_us == 3_600_000_000
        report = shop.tables["order_report"]
        assert (report.gating, report.tolerance and report.tolerance.amount) == (Mode.GATE, 30_000_000)
        assert report.query.text == "SELECT * FROM orders"  # type: ignore[union-attr]

    def test_places(self, shop: ProjectSpec) -> None:
        """Lake tables by name, side tables among them; an external table is where its owner keeps it."""
        assert shop.ledger == "sqlite:///.tidegate/ledger.db"
        assert shop.table_url("orders") == f"{shop.root}/lake/orders"
        assert shop.table_url("fx_rates") == f"{shop.root}/external/fx_rates"
        assert shop.lake_owners() == {
            "orders": "orders", "orders__dead": "orders", "order_report": "order_report",
        }  # fmt: skip

    def test_what_is_not_built_yet_is_said_so(self, problems: Problems) -> None:
        """The example's Kafka source comes later; nothing else of it is refused."""
        kafka = "  clicks:\n    type: kafka\n    servers: localhost:9092\n    topics: [clicks]\n"
        told = problems(EXAMPLE.replace("  fx_rates:\n", f"{kafka}  fx_rates:\n", 1), FILES)
        what = "sources.clicks.type: kafka is not built yet; there is numbered, landing, generator or external"
        assert told == [f"tidegate.yml:39: {what}"]


def blackbox_projects() -> Mapping[str, str]:
    """The YAML texts of the black-box tests, as they are written there."""
    found = {}
    for path in sorted(BLACKBOX.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "YAML":
                found[path.stem] = str(ast.literal_eval(node.value))
    return found


@pytest.mark.parametrize("name", blackbox_projects())
def test_the_projects_of_the_black_box_tests_load(name: str, loaded: Loaded) -> None:
    """What those tests run on is a project."""
    fields = {
        "first": "1000", "mode": "sequential", "retention": "retention: {checkpoints: 4, interval: 1h, delay: 1s}",
        "policy": "quorum, quorum: 1", "sinks": "      - {name: lake, type: delta, table: events}", "idle": "2s",
    }  # fmt: skip
    text = blackbox_projects()[name]
    spec = loaded(text.format(**fields) if "{{" in text else text)
    assert spec.pipelines


class TestDefaults:
    """What holds when nothing is said."""

    def test_an_empty_file_is_a_project(self, loaded: Loaded) -> None:
        """Its name is that of its folder."""
        spec = loaded("")
        assert (spec.name, spec.ledger, spec.spark.conf) == ("shop", "sqlite:///.tidegate/ledger.db", {})
        assert spec.lake == str(spec.root / "lake")

    def test_a_pipeline(self, loaded: Loaded) -> None:
        """As the design's last paragraph says."""
        pipeline = loaded(f"{generator('')}{reading('')}").pipelines["p"]
        assert (pipeline.mode, pipeline.policy.name, pipeline.late) == (PipelineMode.CONCURRENT, "required", Late.KEEP)
        assert (pipeline.from_, pipeline.batch.max_inflight, pipeline.publish_every_us) == (From.START, 2, 250_000)
        assert (pipeline.retry.attempts, pipeline.retry.base_us, pipeline.retry.max_us) == (5, 200_000, 30_000_000)
        assert not pipeline.retention.keep.is_set
        sink = pipeline.main_sink
        assert isinstance(sink, DeltaSinkSpec)
        assert (sink.table, sink.required) == ("p", True)

    def test_what_the_reference_shows_is_what_holds(self) -> None:
        """A default that is shown in another form is the same value."""
        from tidegate.project import settings
        from tidegate.project.kinds import WRONG, Section
        from tidegate.project.problems import Problems as Collected
        from tidegate.project.yaml import Scalar

        sections = [value for value in vars(settings).values() if isinstance(value, Section)]
        sections += [*settings.SOURCES.values(), *settings.SINKS.values()]
        compared = 0
        for key in (key for section in sections for key in section.keys):
            if key.shown is not None and key.default not in (None, (), {}):
                node = Scalar(line=1, raw=key.shown, text=key.shown, quoted=False)
                value = key.kind.read(node, key.name, Collected(file="x"))
                assert value is not WRONG, key.name
                assert value == key.default, key.name
                compared += 1
        assert compared > 10


class TestUnits:
    """How people write amounts."""

    @pytest.mark.parametrize(
        ("written", "micros"),
        [("500ms", 500_000), ("90s", 90_000_000), ("1h30m", 5_400_000_000), ("0s", 0), ("2d", 2 * DAY_US)],
    )
    def test_durations(self, written: str, micros: int, loaded: Loaded) -> None:
        """Microseconds inside."""
        assert loaded(generator(f"max_lateness: {written}")).sources["s"].event_time.max_lateness_us == micros  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("written", "size"),
        [("64KiB", 65_536), ("1.5GiB", 1_610_612_736), ("8388608", 8_388_608), ("8_388_608", 8_388_608)],
    )
    def test_sizes(self, written: str, size: int, loaded: Loaded) -> None:
        """A bare number counts bytes."""
        assert (
            loaded(f"{generator('')}{reading(f'batch: {{max_bytes: {written}}},')}").pipelines["p"].batch.max_bytes
            == size
        )

    @pytest.mark.parametrize(("written", "rate"), [("500/s", 500.0), ("30/m", 0.5), ("2.5 / s", 2.5), ("1/ms", 1000.0)])
    def test_rates(self, written: str, rate: float, loaded: Loaded) -> None:
        """Rows a second inside."""
        assert loaded(generator(f"rate: {written}")).sources["s"].rate_per_s == rate  # type: ignore[union-attr]

    @pytest.mark.parametrize(("written", "start"), [("start", From.START), ("now", From.NOW), ("17", 17), ('"17"', 17)])
    def test_where_a_pipeline_starts(self, written: str, start: object, loaded: Loaded) -> None:
        """A word or a number."""
        assert loaded(f"{generator('')}{reading(f'from: {written},')}").pipelines["p"].from_ == start

    def test_bounds_of_groups(self, loaded: Loaded) -> None:
        """A time or a number; `0` is a tolerance for both kinds."""
        external = "sources:\n  a: {type: external, table: a}\n  n: {type: external, table: n, watermark: integer}\n"
        spec = loaded(
            external + "groups:\n  times: {sources: [a], at_least: 2026-03-01T12:00:00+01:00, tolerance: 0}\n"
            "  numbers: {sources: [n], at_least: 5, tolerance: 3, max_drift: 9}\n"
        )
        times, numbers = spec.groups["times"], spec.groups["numbers"]
        assert times.at_least is not None
        assert times.at_least.text == "2026-03-01T11:00:00Z"
        assert numbers.at_least is not None
        assert (numbers.at_least.value, numbers.tolerance) == (Watermark.of_integer(5), 3)
        assert (times.max_drift, numbers.max_drift) == (None, 9)


def generator(line: str) -> str:
    return f"sources:\n  s:\n    type: generator\n    checkpoints: 1\n    {line}\n"


def reading(setting: str) -> str:
    return f"pipelines:\n  p: {{source: s, {setting} sinks: [{{name: a, type: delta}}]}}\n"


class TestTheEnvironment:
    """`${VAR}` and what must not be shown."""

    def test_values_and_defaults(self, loaded: Loaded) -> None:
        """A default stands in for a variable that is not there, or empty."""
        yaml = "name: ${NAME}\nlake: ${LAKE:-./pond}/deep\n"
        spec = loaded(yaml, variables={"NAME": "brook", "LAKE": ""})
        assert (spec.name, spec.lake) == ("brook", str(spec.root / "pond/deep"))

    def test_a_variable_that_is_not_there(self, problems: Problems) -> None:
        """The line, and both ways out."""
        told = problems("lake: ${LAKE}\n")
        assert told == ["tidegate.yml:1: ${LAKE} is not in the environment; set it, or write ${LAKE:-default}"]

    @pytest.mark.parametrize(
        ("yaml", "value"),
        [
            ("ledger: ${SECRET}\n", "mysql://me:hunter2@h/db"),
            ("name: ${SECRET}\n", "hunter2 hunter2"),
            ("sources:\n  s: {type: generator, checkpoints: '${SECRET}'}\n", "hunter2"),
            ("sources:\n  s: {type: generator, checkpoints: 1, start: '${SECRET}'}\n", "hunter2"),
            ("sources:\n  s: {type: generator, checkpoints: 1, step: '${SECRET}'}\n", "hunter2"),
            ("sources:\n  s: {type: landing, path: x, format: json, schema: '${SECRET}'}\n", "id hunter2"),
        ],
    )
    def test_a_refused_value_is_told_as_it_is_written(self, yaml: str, value: str, problems: Problems) -> None:
        """A message shows what is written, not what it stands for."""
        told = "\n".join(problems(yaml, variables={"SECRET": value}))
        assert "${SECRET}" in told
        assert "hunter2" not in told

    def test_secrets_are_masked_where_values_are_shown(self, loaded: Loaded) -> None:
        """The repr of a project, as a log or a traceback would have it."""
        yaml = "spark:\n  conf: {fs.s3a.secret.key: '${KEY}', spark.executor.cores: 2}\n"
        spec = loaded(yaml, variables={"KEY": "hunter2"})
        assert spec.spark.conf["fs.s3a.secret.key"] == "hunter2"
        assert "hunter2" not in repr(spec)
        assert "'spark.executor.cores': '2'" in repr(spec)

    def test_credentials_written_in_a_url_are_masked(self, problems: Problems) -> None:
        """Also in the sentence that refuses it."""
        told = problems("ledger: mysql://me:hunter2@db/tide?password=hunter2\n")
        assert "mysql://me:***@db/tide?password=***" in told[0]
        assert "hunter2" not in told[0]


class TestFinding:
    """Where a project is."""

    def test_upward(self, write: Write) -> None:
        """The nearest folder upward that has a tidegate.yml."""
        root = write("")
        (root / "a" / "b").mkdir(parents=True)
        assert find(root / "a" / "b") == root

    def test_nowhere(self, tmp_path: Path) -> None:
        """Exit 2, and what to do."""
        with pytest.raises(ConfigError, match=r"there is no tidegate\.yml here or above") as told:
            find(tmp_path)
        assert "tidegate init" in told.value.hint
        with pytest.raises(ConfigError, match=r"there is no tidegate\.yml here"):
            load(tmp_path)

    def test_what_is_wrong_writes_nothing(self, write: Write) -> None:
        """Loading makes no file and no folder, whether it succeeds or not."""
        root = write("nme: x\n")
        with pytest.raises(BadProject):
            load(root)
        assert [path.name for path in root.iterdir()] == ["tidegate.yml"]
        write("name: x\n")
        load(root)
        assert [path.name for path in root.iterdir()] == ["tidegate.yml"]


def test_loading_imports_nothing_heavy(write: Write) -> None:
    """`tidegate status` loads a project with transforms and tables of all kinds, and waits for none of these."""
    decorated = (
        "import pyspark\nimport tidegate as tg\n\n@tg.table(gating='gate')\ndef more(orders):\n    return orders\n"
    )
    transform = "import numpy, pyspark\n\ndef clean(df):\n    return df\n"
    root = write(EXAMPLE, {**FILES, "pipelines/orders.py": transform, "tables/more.py": decorated})
    code = (
        "import sys; from pathlib import Path; from tidegate.project.loading import load; "
        f"spec = load(Path({str(root)!r})); assert set(spec.tables) == {{'order_report', 'more'}}; "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_lines_are_those_of_the_file() -> None:
    """Negative control of the page: the example is YAML to others too, and holds what the design's does."""
    assert re.findall(r"^(\w+):", EXAMPLE, re.MULTILINE) == list(pyyaml.safe_load(EXAMPLE))
