"""The page of the test kit: its Python runs, and it names all there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate import testing

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "testing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block {at}" for at in range(len(BLOCKS))])
def test_what_the_page_shows_runs(block: str) -> None:
    """As it stands there."""
    exec(compile(block, "testing.md", "exec"), {"__name__": "page"})


def test_every_public_name_is_there_and_the_page_tells_of_it() -> None:
    """Values that only come out of others are told by those."""
    told_by_others = {"Crashed", "Findings", "Hit", "Outcome", "Trap"}
    for name in testing.__all__:
        assert getattr(testing, name) is not None
        assert name in told_by_others or re.search(rf"\b{name}\b", PAGE), name
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        _ = testing.Nobody  # type: ignore[attr-defined]
