"""The generated pages are those that the code makes, and nothing in the code is left out."""

from __future__ import annotations

import re
import runpy
from functools import cache
from pathlib import Path
from typing import Any

from tidegate.cli import app
from tidegate.events import EVENTS

ROOT = Path(__file__).parents[3]


@cache
def generator() -> dict[str, Any]:
    """What `make docs` runs."""
    return runpy.run_path(str(ROOT / "scripts" / "docs.py"))


def page(name: str) -> str:
    return (ROOT / "docs" / "reference" / name).read_text()


def test_no_page_is_stale() -> None:
    """`make docs` was run after the last change of a setting, command, error, event or field of the status."""
    assert list(generator()["stale"]()) == []


def test_every_command_argument_and_option_is_described() -> None:
    """Without a sentence nobody knows what it is for."""
    for path, command in generator()["_commands"](app.build(), ""):
        assert command.help, path
        assert f"## tidegate {path}\n" in page("cli.md")
        for param in command.params:
            assert param.help, f"{path} {param.name}"


def test_every_code_in_the_source_is_on_the_page_of_errors() -> None:
    """Also those that are never raised, but told."""
    source = "".join(path.read_text() for path in (ROOT / "src" / "tidegate").rglob("*.py"))
    codes = set(re.findall(r'"(TG-\w+)"', source))
    assert len(codes) > 40
    assert {code for code in codes if f"`{code}`" not in page("errors.md")} == set()


def test_a_code_means_one_thing() -> None:
    """Two errors of one code leave the same way, and one of them is the other's parent."""
    by_code: dict[str, list[Any]] = {}
    for one in generator()["error_classes"]():
        by_code.setdefault(one.code, []).append(one)
    for several in by_code.values():
        assert len({one.exit_code for one in several}) == 1
        assert any(all(issubclass(one, parent) for one in several) for parent in several)


def test_every_event_is_listed_with_its_facts_and_told() -> None:
    """A log is read by programs: nothing comes that is not on the page, and all that is on it comes."""
    told = generator()["told_events"]()
    assert {*EVENTS} == {*told}
    assert {name: facts - {*EVENTS[name].facts} for name, facts in told.items() if facts - {*EVENTS[name].facts}} == {}


def test_words_that_advice_names_are_there() -> None:
    """An error that says to use an option that is not there helps nobody."""
    built = page("cli.md") + page("settings.md")
    for one in generator()["error_classes"]():
        for option in re.findall(r"--[a-z-]+", one.advice):
            assert f"`{option}`" in built or option == "--help", f"{one.__name__}: {option}"


def test_every_variable_of_the_environment_is_described() -> None:
    """Those that only the test kit reads are on its own page."""
    source = ROOT / "src" / "tidegate"
    files = [path for path in source.rglob("*.py") if "testing" not in path.parts]
    named = {name for path in files for name in re.findall(r"TIDEGATE_[A-Z_]+", path.read_text())}
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    assert named
    assert {name for name in named if f"`{name}`" not in page} == set()
