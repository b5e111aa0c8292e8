"""`@tg.pipeline` and `@tg.table` declare what YAML and SQL do; files are read, and run late."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.project.conftest import Write
from tidegate.progress.cut import Mode
from tidegate.progress.groups import Tolerance
from tidegate.progress.watermarks import ValueKind
from tidegate.project import declared
from tidegate.project.loading import load
from tidegate.project.model import ProjectSpec
from tidegate.tables.declare import PythonQuery

Loaded = Callable[..., ProjectSpec]
Problems = Callable[..., list[str]]

SOURCE = "sources:\n  s: {type: generator, checkpoints: 1}\n"
PIPELINE = """\
import tidegate as tg

@tg.pipeline(
    source="s",
    from_=3,
    batch={"max_inflight": 4, "max_bytes": "1MiB"},
    retention=dict(checkpoints=8, delay="1m"),
    late="side",
    mode=None,
    sinks=[{"name": "lake", "type": "delta", "required": True}],
)
def clean(df):
    return [*df, "cleaned"]
"""
SAME_IN_YAML = """\
pipelines:
  clean:
    source: s
    transform: pipelines/p.py:clean
    from: 3
    batch: {max_inflight: 4, max_bytes: 1MiB}
    retention: {checkpoints: 8, delay: 1m}
    late: side
    sinks: [{name: lake, type: delta, required: true}]
"""
EXPLODES = 'raise RuntimeError("this file must not run")\n'


def without_places(spec: object) -> Any:
    return replace(spec, where="", transform=None, sinks=tuple(replace(sink, where="") for sink in spec.sinks))  # type: ignore[attr-defined, type-var]


class TestPipelines:
    """`@tg.pipeline`."""

    def test_it_declares_what_yaml_does(self, loaded: Loaded) -> None:
        """The same values, a fingerprint of the same file, and the function as the transform."""
        python = loaded(SOURCE, {"pipelines/p.py": PIPELINE}).pipelines["clean"]
        yaml = loaded(SOURCE + SAME_IN_YAML, {"pipelines/p.py": "def clean(df): ...\n"})
        assert without_places(python) == without_places(yaml.pipelines["clean"])
        assert python.where == "pipelines/p.py:3"
        assert python.transform is not None
        assert python.transform.text == "pipelines/p.py:clean"
        assert python.transform.load()(["row"]) == ["row", "cleaned"]  # type: ignore[arg-type, comparison-overlap]

    def test_its_mistakes_have_the_lines_of_the_file(self, problems: Problems) -> None:
        """Written out over several lines, each mistake is on its own."""
        text = PIPELINE.replace("max_inflight", "max_inflght").replace('"side"', '"sid"').replace('"s"', '"t"')
        assert problems(SOURCE, {"pipelines/p.py": text}) == [
            "pipelines/p.py:6: pipelines.clean.batch.max_inflght is not a setting; did you mean max_inflight?",
            "pipelines/p.py:8: pipelines.clean.late cannot be 'sid'; did you mean side?",
        ]
        text = PIPELINE.replace('"s"', '"t"')
        assert problems(SOURCE, {"pipelines/p.py": text}) == [
            "pipelines/p.py:4: pipelines.clean.source: there is no source t; there is s"
        ]

    def test_a_transform_takes_one_dataframe(self, problems: Problems) -> None:
        """Another shape of function is refused where it is declared."""
        told = problems(SOURCE, {"pipelines/p.py": PIPELINE.replace("(df)", "(df, other)")})
        assert told[0].startswith("pipelines/p.py:3: clean must take one DataFrame")


class TestTables:
    """`@tg.table`."""

    @pytest.mark.parametrize(
        "text",
        [
            "import tidegate\n\n@tidegate.table(gating='gate', tolerance='30s')\ndef report(orders, lines): ...\n",
            "import tidegate as tg\n\n@tg.table(gating='gate', tolerance='30s')\ndef report(orders, *, lines): ...\n",
            "from tidegate import table as t\n\n"
            "@t(name='report', gating='gate', tolerance='30s')\ndef r(orders, lines): ...\n",
            # computed: such a file is run
            "import tidegate as tg\n\nG = 'gate'\n\n"
            "@tg.table(gating=G, tolerance='30s')\ndef report(orders, lines): ...\n",
            "from datetime import timedelta as d\nimport tidegate as tg\n"
            "@tg.table(gating='gate', tolerance=d(seconds=30))\ndef report(orders, lines): ...\n",
            "import tidegate as tg\nfor name in ['report']:\n"
            "    @tg.table(name=name, gating='gate', tolerance='30s')\n    def f(orders, lines): ...\n",
        ],
    )
    def test_every_way_to_write_it(self, text: str, loaded: Loaded) -> None:
        """Inputs are the names of the parameters."""
        report = loaded("", {"tables/r.py": text}).tables["report"]
        assert (report.gating, report.file) == (Mode.GATE, "tables/r.py")
        assert report.tolerance == Tolerance(amount=30_000_000, kind=ValueKind.TIMESTAMP)
        assert isinstance(report.query, PythonQuery)
        assert report.query.inputs == ("orders", "lines")

    def test_without_brackets(self, loaded: Loaded) -> None:
        """No options: the defaults."""
        text = "import tidegate as tg\n\n@tg.table\ndef report(orders):\n    return orders + 1\n"
        report = loaded("", {"tables/r.py": text}).tables["report"]
        assert report.gating is None
        assert isinstance(report.query, PythonQuery)
        assert report.query.function(1) == 2

    def test_options_are_those_of_the_sql_comment(self, problems: Problems) -> None:
        """The nearest right one is named, on the line of the option."""
        text = "import tidegate as tg\n\n@tg.table(\n    gatin='gate',\n)\ndef report(orders): ...\n"
        told = problems("", {"tables/r.py": text})
        assert told == ["tables/r.py:4: gatin is not an option of a table; did you mean gating?"]

    def test_another_text_is_another_definition(self, loaded: Loaded) -> None:
        """Contents made by another function are not this table's; a comment's worth of caution is fine."""
        text = "import tidegate as tg\n\nRATE = {}\n\n@tg.table\ndef report(orders):\n    return orders * RATE\n"
        one, other = (loaded("", {"tables/r.py": text.format(rate)}).tables["report"].definition for rate in (1, 2))
        assert one != other

    def test_a_table_reads_something(self, problems: Problems) -> None:
        """A function without parameters has no inputs."""
        text = "import tidegate as tg\n\n@tg.table()\ndef report(): ...\n"
        assert problems("", {"tables/r.py": text})[0].startswith("tables/r.py:3: report has no parameters")


class TestRunningLate:
    """Whose file runs, and when."""

    def test_a_file_of_transforms_is_not_run_by_loading(self, loaded: Loaded) -> None:
        """Only the call of its function runs it."""
        spec = loaded(SOURCE + SAME_IN_YAML, {"pipelines/p.py": f"{EXPLODES}def clean(df): ...\n"})
        transform = spec.pipelines["clean"].transform
        assert transform is not None
        with pytest.raises(RuntimeError, match="must not run"):
            transform.load()

    def test_declarations_that_are_written_out_are_not_run_either(self, loaded: Loaded) -> None:
        """Decorators with plain values are read from the text."""
        loaded(SOURCE, {"pipelines/p.py": f"{PIPELINE}\n{EXPLODES}"})

    def test_a_file_that_must_be_run_and_fails_is_told_with_its_line(self, problems: Problems) -> None:
        """The user's own error, no traceback."""
        text = f"import tidegate as tg\n\nG = 'gate'\n{EXPLODES}@tg.table(gating=G)\ndef report(orders): ...\n"
        told = problems("", {"tables/r.py": text})
        assert told == ["tables/r.py:4: running this file failed: RuntimeError: this file must not run"]

    def test_the_text_that_was_loaded_is_the_text_that_runs(self, write: Write) -> None:
        """A file that is edited under a run does not change what its fingerprint stands for."""
        root = write(SOURCE + SAME_IN_YAML, {"pipelines/p.py": "def clean(df):\n    return 'old'\n"})
        old = load(root, variables={}).pipelines["clean"]
        (root / "pipelines/p.py").write_text("def clean(df):\n    return 'new'\n")
        new = load(root, variables={}).pipelines["clean"]
        assert old.transform is not None
        assert new.transform is not None
        assert [ref.load()(None) for ref in (old.transform, new.transform)] == ["old", "new"]  # type: ignore[arg-type, comparison-overlap]
        assert old.definition != new.definition

    def test_files_of_a_project_import_each_other(self, loaded: Loaded) -> None:
        """From the project's folder; a file whose name starts with _ declares nothing."""
        files = {
            "pipelines/_shared_of_test.py": "def twice(x):\n    return 2 * x\n",
            "pipelines/p.py": "from pipelines._shared_of_test import twice\n\ndef clean(df):\n    return twice(df)\n",
        }
        transform = loaded(SOURCE + SAME_IN_YAML, files).pipelines["clean"].transform
        assert transform is not None
        assert transform.load()(21) == 42  # type: ignore[arg-type, comparison-overlap]

    def test_functions_travel_to_other_processes_whole(self, write: Write, tmp_path: Path) -> None:
        """Spark's workers cannot import the project's files: functions are sent by value, helpers too."""
        files = {
            "pipelines/shared.py": "def twice(x):\n    return 2 * x\n",
            "pipelines/p.py": "import pyspark\nfrom pipelines.shared import twice\n\n"
            "def clean(x):\n    return twice(x)\n",
        }
        root = write(SOURCE + SAME_IN_YAML, files)
        send = (
            "from pathlib import Path; from tidegate.project.loading import load\n"
            f"clean = load(Path({str(root)!r})).pipelines['clean'].transform.load()\n"
            f"from pyspark import cloudpickle; Path({str(tmp_path / 'sent')!r}).write_bytes(cloudpickle.dumps(clean))"
        )
        receive = f"import pickle; print(pickle.load(open({str(tmp_path / 'sent')!r}, 'rb'))(21))"
        subprocess.run([sys.executable, "-c", send], check=True)
        done = subprocess.run([sys.executable, "-c", receive], check=True, capture_output=True, text=True)
        assert done.stdout == "42\n"


def test_outside_of_a_project_the_decorators_give_the_function_back() -> None:
    """A notebook may run the file."""

    def clean(df: object) -> object:
        return df

    assert declared.table(clean) is clean
    assert declared.table(gating="gate")(clean) is clean
    assert declared.pipeline(source="s", sinks=[])(clean) is clean
