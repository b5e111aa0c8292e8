"""The contract of a store, kept by Azure's blobs as Azurite emulates them."""

from __future__ import annotations

from collections.abc import Iterator

import obstore
import pytest
from obstore.store import AzureStore

from tests.servers.azurite import ENVIRONMENT, Azurite
from tidegate.clock import Clock
from tidegate.ledger.contract import History, Store
from tidegate.ledger.objects import ObjectStoreLedger
from tidegate.testing.store_contract import StoreContract

pytestmark = pytest.mark.server


class TestAzure(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        for name, value in ENVIRONMENT.items():
            monkeypatch.setenv(name, value)
        container = azurite.new_container()
        self.place = azurite.url(container)
        self.bucket = AzureStore(
            container, prefix="some/ledger", endpoint=azurite.endpoint, client_options={"allow_http": True}
        )
        self.opened: list[Store] = []
        yield
        for store in self.opened:
            store.close()

    def make(self, clock: Clock | None = None, history: History | None = None) -> Store:
        self.opened.append(ObjectStoreLedger(self.place, clock, history))
        return self.opened[-1]

    def url(self) -> str:
        return self.place

    def stored(self, key: str, version: int) -> bytes:
        return obstore.get(self.bucket, f"{key}/!{version:020d}").bytes().to_bytes()

    def damage(self, key: str, version: int, sealed: bytes) -> None:
        obstore.put(self.bucket, f"{key}/!{version:020d}", sealed)
