"""The contract of a store, kept in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidegate import errors
from tidegate.clock import Clock
from tidegate.ledger.contract import History, Store
from tidegate.ledger.memory import MemoryStore, Shelf
from tidegate.ledger.sqlite import SqliteStore
from tidegate.ledger.stores import open_store
from tidegate.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.shelf = Shelf()

    def make(self, clock: Clock | None = None, history: History | None = None) -> Store:
        return MemoryStore(clock, history, shelf=self.shelf)

    def url(self) -> None:
        return None

    def stored(self, key: str, version: int) -> bytes:
        return self.shelf.documents[key][version].sealed

    def damage(self, key: str, version: int, sealed: bytes) -> None:
        kept = self.shelf.documents[key]
        kept[version] = replace(kept[version], sealed=sealed)


def test_memory_is_one_ledger_per_process_and_project(tmp_path: Path) -> None:
    """Opening it again finds what was put; another project finds nothing."""
    (tmp_path / "other").mkdir()
    open_store("memory:", root=tmp_path).put("a", b"1")
    assert open_store("memory:", root=tmp_path / "other" / "..").get("a") is not None
    assert open_store("memory:", root=tmp_path / "other").get("a") is None


def test_a_sqlite_url_is_relative_to_the_project_or_absolute(tmp_path: Path) -> None:
    """`sqlite:///a.db` lies in the project, `sqlite:////x/a.db` where it says."""
    inside = open_store("sqlite:///.tidegate/ledger.db", root=tmp_path)
    outside = open_store(f"sqlite:///{tmp_path}/else.db", root=tmp_path / "project")
    assert isinstance(inside, SqliteStore)
    assert isinstance(outside, SqliteStore)
    assert inside.path == tmp_path / ".tidegate/ledger.db"
    assert outside.path == tmp_path / "else.db"


@pytest.mark.parametrize("url", ["", "sqlite:///", "sqlite://x", "memory", "ledger.db"])
def test_what_is_no_ledger_is_refused_with_one_that_works(url: str, tmp_path: Path) -> None:
    """The hint shows a URL that works."""
    with pytest.raises(errors.ConfigError) as refused:
        open_store(url, root=tmp_path)
    assert "sqlite:///.tidegate/ledger.db" in refused.value.hint
