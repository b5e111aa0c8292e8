"""The contract of a store, kept by a real S3 server, and what only a server can do to it."""

from __future__ import annotations

from collections.abc import Iterator

import obstore
import pytest
from obstore.store import S3Store

from tests.servers.cutting import CuttingProxy
from tests.servers.s3 import ENVIRONMENT, S3, CarelessS3
from tidegate import errors
from tidegate.clock import Clock
from tidegate.ledger.contract import History, Store
from tidegate.ledger.objects import ObjectStoreLedger
from tidegate.ledger.stores import open_store
from tidegate.testing.store_contract import StoreContract

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


class TestS3(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, s3: S3) -> Iterator[None]:
        name = s3.new_bucket()
        self.place = s3.url(name)
        endpoint = f"http://127.0.0.1:{s3.port}"
        self.bucket = S3Store(name, prefix="some/ledger", endpoint=endpoint, client_options={"allow_http": True})
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


def test_a_store_that_ignores_conditions_is_refused() -> None:
    """It answers that all went well, and two runners would overwrite each other: the first put finds out."""
    with CarelessS3() as careless, ObjectStoreLedger(f"s3://b/p?endpoint=http://127.0.0.1:{careless.port}") as store:
        for _ in range(2):
            with pytest.raises(errors.LedgerUnreachable, match="does not honour conditional writes") as refused:
                store.put("a", b"1")
            assert "postgresql://" in refused.value.hint


@pytest.mark.parametrize("arrives", [True, False])
def test_a_put_whose_reply_was_lost_counts_once(s3: S3, arrives: bool) -> None:
    """The client tries again and is told that it exists: it finds that it is its own."""
    bucket = s3.new_bucket()
    with CuttingProxy("127.0.0.1", s3.port) as line, ObjectStoreLedger(s3.url(bucket, port=line.port)) as store:
        store.put("a", b"1")
        line.arm(b"PUT ", arrives=arrives)
        assert store.put("a", b"2", expect=1) == 2
        assert line.cuts == 1
        assert [info.version for info in store.versions("a")] == [1, 2]


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("s3://no-such-bucket/p?endpoint=http://127.0.0.1:{port}", "(?i)nosuchbucket|not exist|404"),
        ("s3://bucket/p?endpoint=http://127.0.0.1:1", "(?i)connect|sending request"),
    ],
)
def test_a_place_that_is_not_there_is_told(s3: S3, place: str, why: str) -> None:
    """With what was tried, and what answered."""
    with ObjectStoreLedger(place.format(port=s3.port)) as store:
        with pytest.raises(errors.LedgerUnreachable, match=why) as refused:
            store.put("a", b"1")
        assert refused.value.fields["url"] in ("s3://no-such-bucket/p", "s3://bucket/p")


def test_a_url_opens_it(s3: S3, tmp_path_factory: pytest.TempPathFactory) -> None:
    """As the `ledger:` of a project names it."""
    place = s3.url(s3.new_bucket())
    with open_store(place, root=tmp_path_factory.mktemp("project")) as store:
        assert store.put("a", b"1") == 1
        assert store.capabilities.shared
