"""The contract of a store, kept in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.clock import Clock
from tidegate.ledger.contract import History, Store
from tidegate.ledger.memory import MemoryStore, Shelf
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
