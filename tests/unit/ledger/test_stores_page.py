"""The page of the ledgers says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate import errors
from tidegate.ledger import leases, objects, positions, sealing, urls
from tidegate.ledger.contract import DAY_US, Capabilities, History
from tidegate.ledger.file import FileStore
from tidegate.ledger.keys import MAX_KEY_BYTES, MAX_PART_BYTES
from tidegate.ledger.memory import MemoryStore
from tidegate.ledger.objects import ObjectStoreLedger
from tidegate.ledger.postgres import LOCK_TIMEOUT_S, PATIENCE_S, SCHEMA, STATEMENT_TIMEOUT_S, PostgresStore
from tidegate.ledger.sqlite import SqliteStore
from tidegate.project.places import DEFAULT_LEDGER

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "stores.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
STORES: dict[str, Capabilities] = {
    "memory": MemoryStore.capabilities,
    "file": FileStore.capabilities,
    "sqlite": SqliteStore.capabilities,
    "postgresql": PostgresStore.capabilities,
    "s3": ObjectStoreLedger.capabilities,
    "gs": ObjectStoreLedger.capabilities,
    "az": ObjectStoreLedger.capabilities,
}


def rows(header: str) -> list[list[str]]:
    """The cells of the table below that header."""
    lines = PAGE[PAGE.index(header) :].splitlines()[2:]
    table = lines[: next((place for place, line in enumerate(lines) if not line.startswith("|")), len(lines))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_table_has_every_kind_of_ledger_with_what_it_can() -> None:
    """No row too many, none too few, and each cell as the code has it."""
    told = {row[0].strip("`"): row[1:5] for row in rows("| ledger |")}
    assert set(STORES) == set(urls.KINDS)
    assert told == {
        urls.KINDS[kind].shape: [
            _yes(has.transactions),
            _yes(has.history),
            "server" if has.server_clock else "runner",
            _yes(has.shared),
        ]
        for kind, has in STORES.items()
    }


def test_the_table_of_positions_has_every_kind() -> None:
    """As the public names have them."""
    assert {row[0].strip("`") for row in rows("| position |")} == {kind.__name__ for kind in positions.KINDS.values()}


def test_the_numbers_are_those_of_the_code() -> None:
    """Limits, bounds and timeouts."""
    history = History()
    for sentence in (
        f"at most {sealing.MAX_BODY_BYTES // 2**20} MiB**",
        f"a key {MAX_KEY_BYTES} characters, with {MAX_PART_BYTES} between",
        f"From {sealing.COMPRESS_FROM_BYTES // 2**10} KiB on",
        f"{history.count} versions or {history.age_us // DAY_US} days",
        f"tried again for {PATIENCE_S:.0f} seconds",
        f"a statement may take {STATEMENT_TIMEOUT_S}, a lock {LOCK_TIMEOUT_S}",
        f"(`{SCHEMA}` without it)",
        f"differ by {leases.MAX_SKEW_US // 1_000_000} seconds",
        f"the default, `{DEFAULT_LEDGER}`",
    ):
        assert sentence in WORDS
    assert objects.GRACE_S == 5 * 60
    assert "stays five minutes longer" in WORDS


def test_the_codes_it_names_exist() -> None:
    """And are those of the ledger."""
    known = {kind.code for kind in (errors.VersionConflict, errors.CorruptCheckpoint, errors.OutcomeUnknown)}
    assert set(re.findall(r"TG-\w+", PAGE)) == known


def _yes(can: bool) -> str:
    return "yes" if can else "no"
