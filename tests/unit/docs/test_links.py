"""The pages lead where they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    """Links within the project are to files and folders that are there."""
    inside = [link for link in LINK.findall(CODE.sub("", page.read_text())) if "://" not in link]
    assert [link for link in inside if not (page.parent / link.partition("#")[0]).exists()] == []


def test_every_page_is_linked() -> None:
    """A page that nobody links is not read; decisions are found in their folder."""
    linked = {
        (page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in LINK.findall(page.read_text())
    }
    lone = [page for page in PAGES if page.name != "README.md" and "decisions" not in page.parts and page not in linked]
    assert lone == []
