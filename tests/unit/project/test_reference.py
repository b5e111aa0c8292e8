"""The page of settings says what the settings are."""

from __future__ import annotations

from pathlib import Path

from tidegate.project.kinds import Section
from tidegate.project.reference import settings_page
from tidegate.project.settings import SINKS, SOURCES

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"


def test_the_page_is_the_one_that_the_settings_make() -> None:
    """`make docs` was run after the last change of a setting."""
    assert PAGE.read_text() == settings_page()


def test_every_key_is_described() -> None:
    """No setting without a sentence, and no section without its keys."""
    from tidegate.project import settings

    page = settings_page()
    sections = [value for value in vars(settings).values() if isinstance(value, Section)]
    for section in [*sections, *SOURCES.values(), *SINKS.values()]:
        for key in section.keys:
            assert key.doc.endswith("."), f"{section.title}: {key.name}"
            assert f"| `{key.name}` |" in page
