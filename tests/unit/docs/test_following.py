"""Whoever follows a page notices when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.docs.examples import Reader


def follow(folder: Path, page: str) -> Reader:
    (folder / "page.md").write_text(page)
    reader = Reader(folder=folder)
    reader.follow(str(folder / "page.md"))
    return reader


def test_a_page_that_is_right_is_followed_to_its_end(tmp_path: Path) -> None:
    """Files are saved, commands typed, lines found in order, times are any time, `…` is anything."""
    page = (
        "```text notes/one.txt\nhello\n```\n"
        "```console\n$ mkdir deep\n$ cd deep\n$ cat ../notes/one.txt; echo 2026-11-12T13:14:15.5Z  of  twenty\n"
        "hello\n2026-03-02T00:00:00Z of …\n$ false; echo $?\n1\n```\n"
        "```python\nopen('made', 'w').close()\n```\n"
    )
    reader = follow(tmp_path, page)
    assert reader.folder == tmp_path / "deep"
    assert (tmp_path / "deep" / "made").exists()
    assert len(reader.done) == 4


@pytest.mark.parametrize(
    "block",
    [
        "console\n$ echo one\ntwo",
        "console\n$ printf 'one\\ntwo'\ntwo\none",
        "console\n$ false",
        "console\n$ true; echo $?\n1",
        "console\n$ echo 2026-03-01T12:00:00Z\n2026-03-01T12:05:00Z",
        "console\n$ tidegate statsu",
        "python\nassert False",
        "yaml\n{",
        "ruby\nputs 1",
    ],
)
def test_a_page_that_is_wrong_is_found(tmp_path: Path, block: str) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(Exception, match=r".*"):
        follow(tmp_path, f"```{block}\n```\n")
