"""Folders of attempts, and what their names say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.lake import attempts
from tidegate.lake.attempts import Attempt, attempt_of, folders_of, refresh_folder, token_of
from tidegate.progress.ranges import Range

numbers = st.integers(0, 2**63)


@settings(max_examples=30, deadline=None)
@given(epoch=numbers, lo=numbers, size=st.integers(1, 999), token=numbers, attempt=numbers)
def test_a_folder_tells_whose_it_is(epoch: int, lo: int, size: int, token: int, attempt: int) -> None:
    one = Attempt(epoch=epoch, range=Range(lo, lo + size), token=token, attempt=attempt)
    for path in (one.folder, f"{one.folder}/part-0.parquet", f"{one.folder}/_temporary/0/x"):
        assert attempt_of(path) == one
        assert token_of(path) == token
    assert attempts.is_batch(one.folder.rpartition("/")[0])


def test_a_folder_is_named_for_its_inclusive_checkpoints() -> None:
    assert Attempt(epoch=2, range=Range(5, 8), token=9, attempt=1).folder == "data/2-5-7/9-1"


def test_a_refresh_has_a_token_and_no_batch() -> None:
    path = f"{refresh_folder(7, '3b')}/part-0.parquet"
    assert (path, token_of(path), attempt_of(path)) == ("data/refresh/7-3b/part-0.parquet", 7, None)
    assert attempts.is_batch("data/refresh")


@pytest.mark.parametrize(
    "path", ["", "data", "data/1-2-3", "data/1-2-3/x-1/a", "other/1-2-3/4-5/a", "data/x/y", "xdata/1-2-3/4-5"]
)
def test_other_paths_are_nobodys(path: str) -> None:
    assert (attempt_of(path), token_of(path)) == (None, None)


@pytest.mark.parametrize("folder", ["data", "data/2026", "data/1-2", "data/1-2-3/4-5", "data/refreshed", "1-2-3"])
def test_other_folders_are_no_batch(folder: str) -> None:
    assert not attempts.is_batch(folder)


def test_the_folders_that_go_with_a_file_are_the_deepest_first() -> None:
    assert folders_of("data/1-2-2/3-0/part") == ["data/1-2-2/3-0", "data/1-2-2"]
    assert folders_of("data/part") == []
