"""One set of calls for a folder of this disk and for an object store."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from tidegate import errors
from tidegate.lake.storage import Storage, Stored, local_root

NAMES = ["a b", "50%", "a%20b", "ü", "q?+", "x=1/y", "deep/er/z"]


@pytest.fixture(params=["folder", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty place; the folder is not made yet."""
    url = f"file://{tmp_path}/new%20one/t" if request.param == "folder" else "memory:///t"
    return Storage(url, table="orders")


def test_nothing_is_there_before_the_first_put(storage: Storage) -> None:
    assert (storage.get("a"), storage.has("a"), storage.walk(""), storage.children()) == (None, False, [], ([], []))
    if storage.local_root is not None:
        assert not os.path.exists(storage.local_root)


def test_what_was_put_stays_as_it_was(storage: Storage) -> None:
    for name in NAMES:
        assert storage.put_if_absent(name, name.encode())
        assert not storage.put_if_absent(name, b"another")
    for name in NAMES:
        assert storage.get(name) == name.encode()
        assert storage.has(name)
        with closing(storage.open(name)) as opened:
            opened.seek(1)
            assert bytes(opened.read()) == name.encode()[1:]
    assert [one.path for one in storage.walk("")] == sorted(NAMES)


def test_folders_and_files_are_told_apart(storage: Storage) -> None:
    for name in ("a", "x/b", "x/c", "y/z/d"):
        storage.put_if_absent(name, b"1234")
    folders, files = storage.children()
    assert (folders, [(one.path, one.name, one.size_bytes) for one in files]) == (["x", "y"], [("a", "a", 4)])
    assert [one.path for one in storage.walk("x")] == ["x/b", "x/c"]
    assert [one.path for one in storage.walk("x", after="x/b")] == ["x/c"]
    assert (storage.walk("no"), storage.children("no")) == ([], ([], []))


def test_a_file_tells_when_it_was_written(storage: Storage) -> None:
    before = time.time() - 1
    storage.put_if_absent("a", b"")
    (found,) = storage.walk("")
    assert isinstance(found, Stored)
    assert before * 1_000_000 <= found.modified_us <= (time.time() + 1) * 1_000_000


def test_deleting_takes_the_file_and_its_checksum(storage: Storage) -> None:
    for name in ("d/part-0.parquet", "d/.part-0.parquet.crc", "d/part-1.parquet"):
        storage.put_if_absent(name, b"")
    assert storage.delete("d/part-0.parquet")
    left = [one.path for one in storage.walk("d")]
    # Only a local disk has such checksums.
    assert left == (["d/part-1.parquet"] if storage.local_root else ["d/.part-0.parquet.crc", "d/part-1.parquet"])


def test_folders_go_with_their_last_file(storage: Storage) -> None:
    for name in ("x/y/a", "x/b"):
        storage.put_if_absent(name, b"")
    storage.delete("x/y/a")
    storage.drop_empty(["x", "x/y"])
    assert [one.path for one in storage.walk("")] == ["x/b"]
    assert storage.children("x")[0] == []


def test_a_missing_file_is_told_where_it_is_opened(storage: Storage) -> None:
    storage.put_if_absent("a", b"")
    with pytest.raises(errors.LakeUnavailable, match="lake table orders: cannot read b"):
        storage.open("b")


def test_a_place_that_is_no_folder_is_unavailable_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    storage = Storage(str(tmp_path / "file"), table="orders")
    with pytest.raises(errors.LakeUnavailable, match="cannot put a/b") as told:
        storage.put_if_absent("a/b", b"")
    assert "\n" not in told.value.message
    with pytest.raises(errors.LakeUnavailable, match="cannot flush"):
        storage.sync(["a/b"])


def test_a_put_that_was_killed_leaves_nothing_that_is_read(tmp_path: Path) -> None:
    """The store writes aside first, in a file whose name ends with a number after a #."""
    storage = Storage(str(tmp_path), table="orders")
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "00000000000000000000.json#1").write_text("half of it")
    assert storage.walk("") == []
    assert storage.put_if_absent("_delta_log/00000000000000000000.json", b"whole")


@pytest.mark.parametrize(
    ("url", "root", "spark"),
    [
        ("/lake/orders", "/lake/orders", "/lake/orders/data/a b"),
        ("file:///lake/my%20orders", "/lake/my orders", "/lake/my orders/data/a b"),
        ("s3://bucket/lake/orders", None, "s3a://bucket/lake/orders/data/a b"),
        ("az://box/lake/", None, "abfs://box/lake/data/a b"),
        ("gs://bucket/lake", None, "gs://bucket/lake/data/a b"),
    ],
)
def test_spark_has_names_of_its_own_for_places(url: str, root: str | None, spark: str) -> None:
    assert (local_root(url), Storage(url, table="orders").at("data/a b")) == (root, spark)
