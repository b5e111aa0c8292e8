"""Whatever is typed into a project's files is loaded or refused in sentences; nothing else ever comes out."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.project.test_loading import EXAMPLE, FILES
from tidegate.project.loading import load
from tidegate.project.problems import BadProject

LINES = EXAMPLE.splitlines(keepends=True)
SCRAPS = st.sampled_from(
    ["", ":", "-", "[", "]", "{", "}", "&a ", "*a", "!!int ", "!x ", "<<: ", "'", '"', "#", "|", "> ", "\t", "  ",
     "${", "${A}", "${A:-}", "null", "~", "true", "-1", "0", "1e9", "99999999999999999999", "1_0", "²", "٣", "\u2028",
     "1s", "start", "now - ", "every", "? ", "---\n", "...", "%YAML 1.1\n", "é", "\x00", "2026-03-01T00:00:00Z",
     "{number}", ".", "..", "/", "`", "<", "ARRAY<"]
)  # fmt: skip


@st.composite
def broken(draw: st.DrawFn) -> str:
    """The example of the design with a few places typed over."""
    text = EXAMPLE
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        gone = draw(st.integers(0, 12))
        text = text[:at] + draw(SCRAPS) + text[at + gone :]
    return text


@st.composite
def shuffled(draw: st.DrawFn) -> str:
    """Lines of the example, some gone, some moved."""
    return "".join(draw(st.lists(st.sampled_from(LINES), max_size=40)))


def told(yaml: str, sql: str = "SELECT 1", python: str = "") -> list[str]:
    """The problems of a project of these texts; none when it loads."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = {"tidegate.yml": yaml, **FILES, "tables/t.sql": sql, "tables/p.py": python}
        for path, text in files.items():
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        with contextlib.suppress(BadProject):
            load(root, variables={"A": "b"})
            return []
        try:
            load(root, variables={"A": "b"})
        except BadProject as refused:
            return str(refused).splitlines()
        return ["it loads the second time only"]


@settings(max_examples=300, deadline=None)
@given(st.one_of(broken(), shuffled(), st.text(max_size=60)))
@example("sources: {a: {type: generator, checkpoints: 1, silent: {²: after 3}}}")
@example("<<: {name: x}\n")
@example("\x1f")
@example("? [a]\n: b\n")
def test_any_settings(text: str) -> None:
    """A refusal begins with the file, and with a line of it."""
    lines = max(1, len(text.splitlines()))
    for problem in told(text):
        file, _, rest = problem.partition(":")
        assert file.startswith(("tidegate.yml", "tables/", "pipelines/"))
        number = rest.partition(":")[0]
        assert not number.isdigit() or file != "tidegate.yml" or 1 <= int(number) <= lines


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
@example("-- tolerance: 9d9\nSELECT 1", "import tidegate as tg\n@tg.table(tolerance=1.5)\ndef f(a): ...\n")
@example("-- schedule: cron 0 0 31 2 *\nSELECT 1", "import tidegate as tg\n@tg.table(*[])\ndef f(a): ...\n")
@example("-- schedule: every 0s\nSELECT 1", "import tidegate as tg\n@tg.table(schedule=['a'])\ndef f(a): ...\n")
@example("-- tolerance: ²\nSELECT 1", "import tidegate as tg\n@tg.pipeline(source='s', sinks=[1])\ndef f(a): ...\n")
@example("", "import tidegate as tg\ntg.table(gating='gate')(lambda a: a)\n")
@example("", "import tidegate as tg\ntg.table(max)\n")
@example("", "import tidegate as tg\nclass A:\n    @tg.table\n    def f(self, a): ...\n")
def test_any_query_and_any_python(sql: str, python: str) -> None:
    """Also what is no SQL and no Python."""
    told(EXAMPLE, sql, python)
