"""A table by its log: who may change it, what it holds, and what is cleaned up."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import deltalake
import pytest

from tests.unit.lake.samples import NAME, created, file_of, rows_of, said, shape_of, stage
from tidegate import effects, errors
from tidegate.effects import EffectName, Moment
from tidegate.lake import log, reading
from tidegate.lake.log import Kind, Metadata, Version
from tidegate.lake.storage import Storage
from tidegate.lake.table import LakeTable
from tidegate.testing.clock import ManualClock

FAR_FUTURE_US = 2**60


@pytest.fixture(params=["local", "memory"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    """A table that is not there yet, on this disk and in an object store."""
    url = str(tmp_path / "lake" / NAME) if request.param == "local" else "memory:///lake/orders"
    return LakeTable(url, NAME)


def beside(table: LakeTable) -> LakeTable:
    """Another object for the same table."""
    return LakeTable(table.url, NAME, storage=table.storage)


def opened(url: Path) -> LakeTable:
    return LakeTable(str(url), NAME)


def ids(table: LakeTable) -> list[int]:
    return sorted(reading.to_arrow(table).column("id").to_pylist())


# taking it over


def test_a_table_that_is_not_there_says_so(empty: LakeTable) -> None:
    assert (empty.head(), empty.exists, empty.metadata(), empty.shape()) == (None, False, None, None)
    assert (empty.files(), empty.versions(), list(empty.removals())) == ((), [], [])
    assert empty.first_version(lambda _: True) is None
    assert not empty.repair()
    with pytest.raises(errors.LakeError, match="no version 0"):
        empty.files(0)


def test_a_claim_holds_before_there_is_a_table(empty: LakeTable) -> None:
    assert empty.claim(NAME, 1, 5) is None
    assert beside(empty).claim(NAME, 1, 5) is None
    late = beside(empty)
    with pytest.raises(errors.StaleWriter, match="token 5, ours 4"):
        late.claim(NAME, 1, 4)
    with pytest.raises(errors.StaleWriter, match="token 5, ours 4"):
        late.create(shape_of(), said(token=4))
    assert empty.create(shape_of(), said(token=5)).version == 0


def test_a_claim_is_an_empty_version_that_says_all_that_was_said(empty: LakeTable) -> None:
    empty.claim(NAME, 1, 1)
    first = empty.create(shape_of(), said(end=7, reader_lo=2, rows=9, positions={"s": 3}), added=[file_of("data/a")])
    claimed = beside(empty).claim(NAME, 2, 2)
    assert claimed is not None
    assert first.metadata is not None
    assert claimed.metadata == replace(
        first.metadata,
        kind=Kind.CLAIM,
        epoch=2,
        token=2,
        id=claimed.metadata.id if claimed.metadata else "",
        at_us=claimed.at_us,
    )
    assert [file.path for file in empty.files()] == ["data/a"]


def test_a_claim_that_was_made_is_found_again(empty: LakeTable) -> None:
    empty.claim(NAME, 1, 1)
    empty.create(shape_of(), said())
    once = beside(empty).claim(NAME, 1, 2)
    assert beside(empty).claim(NAME, 1, 2) == once
    assert len(empty.versions()) == 2


def test_an_epoch_never_falls_with_a_claim(empty: LakeTable) -> None:
    empty.claim(NAME, 1, 1)
    empty.create(shape_of(), said(epoch=7))
    claimed = empty.claim(NAME, 3, 2)
    assert claimed is not None
    assert claimed.metadata is not None
    assert claimed.metadata.epoch == 7


# changing it


def test_the_first_version_says_what_columns_there_are(empty: LakeTable) -> None:
    with pytest.raises(errors.LakeError, match="nobody said what columns"):
        empty.commit(said())


def test_versions_are_dense_and_each_is_won_once(empty: LakeTable) -> None:
    other = beside(empty)
    empty.create(shape_of(), said())
    with pytest.raises(errors.LakeConflict, match="version 0 was"):
        other.create(shape_of(), said())
    for number in range(1, 40):
        winner, loser = (empty, other) if number % 3 else (other, empty)
        assert winner.commit(said(end=number)).version == number
        with pytest.raises(errors.LakeConflict, match=f"version {number} was"):
            loser.commit(said(end=number))
        assert loser.head() == winner.known_head()
    assert [one.version for one in LakeTable(empty.url, NAME, storage=empty.storage).versions()] == list(range(40))


def test_a_decision_on_an_older_head_is_a_conflict(empty: LakeTable) -> None:
    first = empty.create(shape_of(), said())
    second = empty.commit(said(end=2), onto=first)
    with pytest.raises(errors.LakeConflict, match="version 1"):
        empty.commit(said(end=3), onto=first)
    assert empty.commit(said(end=3), onto=second).version == 2


def test_a_decision_on_a_head_that_a_newer_owner_followed_is_refused(empty: LakeTable) -> None:
    first = empty.create(shape_of(), said())
    beside(empty).claim(NAME, 1, 9)
    empty.head()
    with pytest.raises(errors.StaleWriter, match="token 9, ours 1"):
        empty.commit(said(end=3), onto=first)


def test_a_decision_on_a_table_that_went_away_is_corrupt(tmp_path: Path) -> None:
    head = created(tmp_path / "a", batches=1).head()
    with pytest.raises(errors.LakeCorrupt, match="version 0, which was there, is gone"):
        created(tmp_path / "b").commit(said(end=3), onto=head)


def test_the_table_names_its_commits_and_their_times_never_fall(tmp_path: Path) -> None:
    clock = ManualClock()
    table = created(tmp_path, clock=clock)
    first = table.create(shape_of(), said(table="", id="mine", at_us=5))
    clock.set_now(clock.now() - timedelta(hours=1))
    second = table.commit(said())
    assert first.metadata is not None
    assert second.metadata is not None
    assert (first.metadata.table, second.at_us) == (NAME, first.at_us)
    assert len({"mine", "", first.metadata.id, second.metadata.id}) == 4


def test_threads_of_one_object_win_versions_of_their_own() -> None:
    table = created("memory:///lake/orders")
    table.create(shape_of(), said())
    won: list[int] = []

    def commit() -> None:
        won.extend(table.commit(said()).version for _ in range(50))

    threads = [threading.Thread(target=commit) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(won) == list(range(1, 201))


# others


def test_what_somebody_else_committed_stops_the_table_with_a_sentence(tmp_path: Path) -> None:
    table = created(tmp_path, batches=3)
    deltalake.DeltaTable(str(tmp_path)).optimize.compact()
    for change in (lambda: table.commit(said()), lambda: opened(tmp_path).commit(said())):
        with pytest.raises(errors.NotOurs, match="version 3 was committed by somebody else") as told:
            change()
        assert "Tidegate writes only tables of its own" in told.value.hint
    with pytest.raises(errors.NotOurs, match="somebody else"):
        opened(tmp_path).claim(NAME, 1, 2)
    # Whoever only reads goes on.
    assert ids(opened(tmp_path)) == [1, 2, 3]
    assert opened(tmp_path).metadata() is None


def test_the_table_of_another_name_is_refused(tmp_path: Path) -> None:
    created(tmp_path, batches=1)
    with pytest.raises(errors.NotOurs, match="holds the table orders"):
        LakeTable(str(tmp_path), "lines").claim("lines", 1, 2)


@pytest.mark.parametrize(
    "strange", ["notes.txt", "year=2026/a.parquet", "data/mine.csv", "data/2026/a.parquet", "_delta_log/x.parquet"]
)
def test_a_folder_that_is_in_use_is_refused_and_left_as_it_is(tmp_path: Path, strange: str) -> None:
    (tmp_path / strange).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / strange).write_text("theirs")
    for change in (lambda: opened(tmp_path).claim(NAME, 1, 1), lambda: opened(tmp_path).create(shape_of(), said())):
        with pytest.raises(errors.NotOurs, match="is in use: it has"):
            change()
    assert [str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file()] == [strange]


def test_a_folder_with_what_attempts_left_is_ours(tmp_path: Path) -> None:
    table = opened(tmp_path)
    stage(table, rows_of(1))
    (tmp_path / ".hidden").write_text("a file manager's")
    (tmp_path / "data" / "refresh" / "1-0").mkdir(parents=True)
    assert opened(tmp_path).claim(NAME, 1, 1) is None


def test_the_delta_table_of_somebody_else_is_refused_and_not_repaired(tmp_path: Path) -> None:
    import pyarrow as pa

    deltalake.write_deltalake(str(tmp_path), pa.table({"id": [1]}))
    # Their log checkpoint in parts is one that we do not know; a torn entry is theirs to mend.
    (tmp_path / "_delta_log/_last_checkpoint").write_text('{"version": 0, "parts": 2}')
    before = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    assert not opened(tmp_path).repair()
    with pytest.raises(errors.NotOurs):
        opened(tmp_path).claim(NAME, 1, 1)
    (tmp_path / log.entry_path(1)).write_bytes(b"")
    assert not opened(tmp_path).repair()
    (tmp_path / log.entry_path(1)).unlink()
    assert {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()} == before


def test_a_torn_first_entry_in_a_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / log.entry_path(0)).write_bytes(b"")
    (tmp_path / "part-0.parquet").write_bytes(b"theirs")
    assert not opened(tmp_path).repair()
    assert (tmp_path / log.entry_path(0)).exists()


# what it holds


def test_each_version_keeps_its_files(tmp_path: Path) -> None:
    table = created(tmp_path, batches=4)
    one, two, *_ = table.files()
    assert table.among([one.path, "data/never"]) == {one.path}
    assert table.among([one.path, two.path], 0) == {file.path for file in table.files(0)} & {one.path, two.path}
    table.commit(said(Kind.PRUNE, end=5, reader_lo=3), removed=[one, two])
    for any_order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1]):
        reader = opened(tmp_path)
        held = {number: [file.range.lo for file in reader.files(number) if file.range] for number in any_order}
        assert held == {0: [1], 1: [1, 2], 2: [1, 2, 3], 3: [1, 2, 3, 4], 4: [3, 4]}
    with pytest.raises(errors.LakeError, match="no version 5"):
        table.files(5)


def test_what_came_between_two_versions_is_new_rows_only(tmp_path: Path) -> None:
    table = created(tmp_path, batches=4)
    small = table.files()
    table.commit(said(Kind.COMPACT, end=5), added=[file_of("data/big")], removed=small)
    table.commit(said(end=6), added=[file_of("data/last")])
    assert table.files_between(0, 3) == small[1:]
    assert [file.path for file in table.files_between(3, 5)] == ["data/last"]
    assert table.files_between(5, 5) == ()


def test_the_first_version_that_reached_something_is_searched_and_not_scanned() -> None:
    writer = created("memory:///lake/orders")
    writer.create(shape_of(), said(end=2))
    for end in range(3, 202):
        writer.commit(said(end=end))
    looked: list[int] = []

    def reached(end: int) -> Callable[[Metadata], bool]:
        def look(metadata: Metadata) -> bool:
            looked.append(metadata.end or 0)
            return (metadata.end or 0) >= end

        return look

    reader = beside(writer)
    for end, version in ((2, 0), (100, 98), (201, 199)):
        found = reader.first_version(reached(end))
        assert found is not None
        assert found.version == version
    assert reader.first_version(reached(999)) is None
    assert len(looked) < 40


def test_removals_are_told_newest_first_and_nothing_between(tmp_path: Path) -> None:
    table = created(tmp_path, batches=4)
    files = table.files()
    for token, file in enumerate(files[:3], 1):
        table.commit(said(Kind.PRUNE, end=5, token=token), removed=[file])
        table.commit(said(end=5, token=token))
        table.claim(NAME, 1, token + 1)
    told = [(entry.version.version, entry.removed, entry.removed_bytes) for entry in opened(tmp_path).removals()]
    assert told == [
        (version, (file.path,), (file.size_bytes,)) for version, file in zip((10, 7, 4), files[2::-1], strict=True)
    ]


def test_a_reader_follows_what_another_commits(tmp_path: Path) -> None:
    table, reader = created(tmp_path, batches=1), opened(tmp_path)
    for number in range(2, 12):
        assert len(reader.files()) == number - 1
        table.commit(said(end=number + 1), added=stage(table, rows_of(number), number=number))
        assert reader.head() == table.known_head()
    assert [number for number, _ in enumerate(reader.published(), 1)] == list(range(1, 12))


def test_the_newest_of_many_versions_is_found_from_anywhere() -> None:
    table = created("memory:///lake/orders")
    table.create(shape_of(), said())
    readers = [beside(table)]
    for number in range(1, 70):
        table.commit(said())
        if number in (1, 2, 33, 68, 69):
            readers.append(beside(table))
            readers[-1].head()
    assert all(reader.head() == table.known_head() for reader in readers)


# log checkpoints


def test_a_log_checkpoint_says_what_the_log_says(tmp_path: Path) -> None:
    table = created(tmp_path, batches=5)
    table.commit(said(Kind.PRUNE, end=6, reader_lo=2), removed=table.files()[:1])
    by_log = opened(tmp_path).files()
    table.checkpoint()
    assert (tmp_path / log.checkpoint_path(5)).exists()
    reader = opened(tmp_path)
    assert (reader.files(), reader.shape()) == (by_log, table.shape())
    table.commit(said(end=7), added=stage(table, rows_of(6), number=6))
    assert len(opened(tmp_path).files()) == 5
    # A version before it is read from the log's start, and one that is gone from a checkpoint is not needed.
    assert len(opened(tmp_path).files(2)) == 3
    assert ids(opened(tmp_path)) == sorted(deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()["id"].to_pylist())


def test_a_reader_starts_at_the_log_checkpoint_and_not_at_the_logs_start(tmp_path: Path) -> None:
    table = created(tmp_path, batches=4)
    table.checkpoint()
    for number in (0, 1):
        (tmp_path / log.entry_path(number)).unlink()
    assert len(opened(tmp_path).files()) == 4


def test_log_checkpoints_are_written_in_the_background_as_the_log_grows(tmp_path: Path) -> None:
    table = created(tmp_path, batches=1, checkpoint_every=3)
    for _ in range(3):
        table.commit(said(end=2))
    table.close()
    assert table.checkpoint_failure is None
    assert (tmp_path / "_delta_log/_last_checkpoint").exists()
    assert len(list((tmp_path / "_delta_log").glob("*.checkpoint.parquet"))) == 1


def test_a_log_checkpoint_that_fails_harms_no_commit(tmp_path: Path) -> None:
    table = created(tmp_path, batches=1, checkpoint_every=1)
    (tmp_path / "_delta_log/_last_checkpoint").mkdir()
    assert table.commit(said(end=2)).version == 1
    table.close()
    assert table.checkpoint_failure is not None
    assert table.commit(said(end=2)).version == 2
    table.close()


# what goes


def test_only_what_no_reader_of_the_newest_version_sees_is_deleted(tmp_path: Path) -> None:
    table = created(tmp_path, batches=2)
    first, second = table.files()
    table.commit(said(Kind.PRUNE, end=3, reader_lo=2), removed=[first])
    assert table.delete_files([first.path, second.path, "data/9-9-9/1-0/never"]) == (first.path,)
    assert not (tmp_path / first.path).parent.parent.exists()
    assert (tmp_path / second.path).exists()
    assert table.delete_files([first.path]) == ()


@pytest.fixture
def swept(tmp_path: Path) -> dict[str, Any]:
    """Attempts of token 1: published, given up but not deleted, in the ledger, dead; and one of token 2."""
    table = created(tmp_path)
    gone, shown = stage(table, rows_of(1), number=1), stage(table, rows_of(2), number=2)
    table.create(shape_of(), said(end=3), added=[*gone, *shown])
    table.commit(said(Kind.PRUNE, end=3, reader_lo=2), removed=gone)
    kept, dead = stage(table, rows_of(3), number=3), stage(table, rows_of(3), number=3, parts=2)
    table = opened(tmp_path)
    table.claim(NAME, 1, 2)
    ours = stage(table, rows_of(3), number=3, token=2)
    return {"table": table, "gone": gone, "shown": shown, "kept": kept, "dead": dead, "ours": ours}


def test_a_sweep_takes_the_dead_attempts_of_older_tokens_alone(tmp_path: Path, swept: dict[str, Any]) -> None:
    table: LakeTable = swept["table"]
    keep = [file.path.rpartition("/")[0] for file in swept["kept"]]
    assert table.sweep(keep, below_token=2, older_than_us=FAR_FUTURE_US) == 2
    attempts = [swept[name] for name in ("gone", "shown", "kept", "ours")]
    assert all((tmp_path / file.path).exists() for files in attempts for file in files)
    assert not any((tmp_path / file.path).exists() for file in swept["dead"])
    assert table.sweep(keep, below_token=2, older_than_us=FAR_FUTURE_US) == 0


def test_a_sweep_waits_until_every_file_of_an_attempt_is_old(tmp_path: Path, swept: dict[str, Any]) -> None:
    table: LakeTable = swept["table"]
    folder = (tmp_path / swept["dead"][0].path).parent
    young = folder / "_temporary" / "0" / "part"
    young.parent.mkdir(parents=True)
    young.write_bytes(b"a zombie writes")
    for one in (*folder.glob("*.parquet"), *folder.glob(".*.crc")):
        os.utime(one, (1_000, 1_000))
    keep = [file.path.rpartition("/")[0] for file in swept["kept"]]
    assert table.sweep(keep, below_token=2, older_than_us=2_000_000_000) == 0
    os.utime(young, (1_000, 1_000))
    assert table.sweep(keep, below_token=2, older_than_us=2_000_000_000) == 3
    assert not folder.exists()


def test_a_sweep_takes_folders_that_a_failed_job_left_without_files(tmp_path: Path) -> None:
    table = created(tmp_path, batches=1)
    (tmp_path / "data/1-7-7/0-3/_temporary/0/_temporary").mkdir(parents=True)
    live = tmp_path / "data/1-7-7/1-0/_temporary/0"
    live.mkdir(parents=True)
    assert table.sweep((), below_token=1, older_than_us=FAR_FUTURE_US) == 0
    assert not (tmp_path / "data/1-7-7/0-3").exists()
    assert live.exists()


def test_an_object_store_is_swept_and_deleted_from_alike() -> None:
    table = created("memory:///lake/orders")
    for path in ("data/1-1-1/1-0/a.parquet", "data/1-2-2/0-0/b.parquet", "data/1-2-2/0-0/_temporary/c"):
        table.storage.put_if_absent(path, b"rows")
    table.create(shape_of(), said(end=2), added=[file_of("data/1-1-1/1-0/a.parquet")])
    assert table.sweep((), below_token=1, older_than_us=FAR_FUTURE_US) == 2
    assert [one.path for one in table.storage.walk("data")] == ["data/1-1-1/1-0/a.parquet"]


# that it lasts


class Flushes:
    """Which files and folders were flushed, in order, with the points of effects among them."""

    def __init__(self, root: Path) -> None:
        self.root, self.seen = root, list[str]()

    def flush(self, opened: int) -> None:
        path = os.readlink(f"/proc/self/fd/{opened}")
        self.seen.append(os.path.relpath(path, self.root))

    def point(self, name: EffectName, moment: Moment, facts: dict[str, object]) -> None:
        self.seen.append(f"{moment.value} {name}")


@pytest.fixture
def flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    seen = Flushes(tmp_path)
    monkeypatch.setattr(os, "fsync", seen.flush)
    stop = effects.observe(seen.point)
    yield seen
    stop()


def test_files_and_folders_are_flushed_before_a_commit_tells(tmp_path: Path, flushes: Flushes) -> None:
    table = created(tmp_path / "lake" / NAME)
    # The folders that are new, then the claim in them.
    assert flushes.seen[:3] == ["before lake.commit", ".", "lake"]
    assert "lake/orders/_claims/00000000000000000001" in flushes.seen
    flushes.seen.clear()
    files = stage(table, rows_of(1, 2), parts=2)
    batch = f"lake/orders/{files[0].path}".rpartition("/")[0]
    assert flushes.seen[0] == "before lake.sync"
    assert set(flushes.seen[1:3]) == {f"lake/orders/{file.path}" for file in files}
    above = ["lake/orders/data/1-1-1", "lake/orders/data", "lake/orders", "lake"]
    assert flushes.seen[3:] == [batch, *above, "after lake.sync"]
    flushes.seen.clear()
    table.create(shape_of(), said(end=2), added=files)
    above = ["lake/orders/_delta_log", "lake/orders", "lake"]
    assert flushes.seen == ["before lake.commit", f"lake/orders/{log.entry_path(0)}", *above, "after lake.commit"]
    flushes.seen.clear()
    table.commit(said(end=2))
    entry = f"lake/orders/{log.entry_path(1)}"
    assert flushes.seen == ["before lake.commit", entry, "lake/orders/_delta_log", "after lake.commit"]


def test_a_head_that_its_writer_may_not_have_flushed_is_flushed_before_it_is_claimed(
    tmp_path: Path, flushes: Flushes
) -> None:
    created(tmp_path, batches=1)
    flushes.seen.clear()
    opened(tmp_path).claim(NAME, 1, 2)
    assert flushes.seen[:2] == [log.entry_path(0), "_delta_log"]


def test_a_commit_whose_flush_fails_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = created(tmp_path, batches=1)

    def full(opened: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.LakeUnavailable, match="No space left on device"):
        table.commit(said(end=2))
    monkeypatch.undo()
    head = table.known_head()
    assert isinstance(head, Version)
    assert table.commit(said(end=3)).version == head.version + 1


def test_a_place_that_is_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a file")
    with pytest.raises(errors.LakeUnavailable, match="cannot put"):
        LakeTable(str(tmp_path / "t"), NAME, storage=Storage(str(tmp_path / "t"), table=NAME)).claim(NAME, 1, 1)
