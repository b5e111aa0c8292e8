"""Tables over pipelines that give rows up: what is kept for them, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.tables.conftest import Shop

pytestmark = pytest.mark.spark

YAML = """\
name: shop
sources:
  entries: {type: numbered, path: "in/{number}.json", format: json, schema: "id BIGINT"}
  others: {type: external, table: external/others, watermark: integer}
pipelines:
  entries:
    source: entries
    retention: {checkpoints: 2, interval: 1ms, delay: 0s}
    sinks: [{name: lake, type: delta}]
"""
GROUP = "groups: {pair: {sources: [entries, others], bootstrap: closed}}\n"


def numbers(shop: Shop, *wanted: int) -> None:
    for number in wanted:
        shop.write(f"in/{number}.json", f'{{"id": {number}}}\n')


def files(shop: Shop) -> int:
    return len(list((shop.root / "lake" / "entries" / "data").rglob("*.parquet")))


def test_rows_that_a_table_counts_are_kept_until_it_has_gone_on(shop: Shop) -> None:
    """Files that readers have given up stay on the disk while contents are made from them."""
    shop.declare(YAML, kept="SELECT id FROM entries", left="-- over: retained\nSELECT id FROM entries")
    numbers(shop, 1, 2)
    shop.run()
    assert (shop.ids("kept"), shop.ids("left")) == ([1, 2], [1, 2])
    numbers(shop, 3, 4, 5)
    shop.run()
    assert shop.ids("entries") == [4, 5]
    assert shop.ids("left") == [4, 5]
    assert shop.ids("kept") == [1, 2, 3, 4, 5]  # what retention removes stays counted
    numbers(shop, 6)
    shop.run()
    table = shop.table("kept")
    assert (table["verdict"], table["blocked_by"]) == ("closed", ["entries"])
    assert table["reason"].startswith("entries was pruned below 4, and kept counts rows from 1 on")
    assert shop.explain("kept")["remedy"] == "tidegate refresh kept --force computes it over the rows that are left"
    refused = shop.tg("refresh", "kept", "--full", expect=3)
    assert "would lose them" in refused.err
    assert shop.ids("kept") == [1, 2, 3, 4, 5]
    held = shop.tg("prune", "--json").json[0]
    assert held["held_by"] != []
    before = files(shop)
    shop.tg("refresh", "kept", "--force")
    assert shop.ids("kept") == [4, 5, 6]  # the newest publish; what was given up after it is not gone yet
    pruned = [shop.tg("prune", "--json").json[0] for _ in range(2)]
    assert [one["pruner_hi"] for one in pruned] == [3, 3]
    assert pruned[1]["held_by"] == ["files of checkpoints 4 to 4 are still read by a table"]
    assert files(shop) < before
    assert shop.explain("kept")["history"][0]["what"] == "forced"


def test_a_table_that_comes_later_starts_from_what_readers_see(shop: Shop) -> None:
    """The versions below the prune have files that were deleted: no mode may choose one of them."""
    shop.declare(YAML)
    numbers(shop, 1, 2)
    shop.run()
    numbers(shop, 3, 4, 5)
    shop.run()
    shop.tg("prune")
    assert sorted(shop.ids("entries")) == [4, 5]
    shop.append("others", 1)
    shop.tg("advance", "others", "2")
    shop.declare(
        YAML + GROUP,
        newest="SELECT id FROM entries",
        held="-- gating: hold_back\nSELECT e.id FROM entries e, others o",
    )
    shop.run()
    assert shop.ids("newest") == [4, 5]
    assert shop.table("held")["reason"].startswith("others is 3 behind entries")
    shop.append("others", 2)
    shop.tg("advance", "others", "5")
    shop.run()
    assert sorted(shop.ids("held")) == [4, 4, 5, 5]


def test_what_a_first_cut_may_need_is_not_pruned_while_it_is_waited_for(shop: Shop) -> None:
    """Entries run ahead of the others all the time; the table still gets its first cut."""
    shop.declare(YAML + GROUP, held="-- gating: hold_back\nSELECT e.id FROM entries e, others o")
    numbers(shop, 1, 2)
    shop.run()
    assert shop.table("held")["reason"] == "others has nothing published yet"
    numbers(shop, 3, 4, 5)
    shop.run()
    shop.tg("prune")
    assert shop.ids("entries") == [4, 5]
    shop.append("others", 1)
    shop.tg("advance", "others", "2")
    shop.run()
    assert shop.ids("held") == [1, 2]
    assert shop.table("held")["verdict"] == "capped"


def test_a_table_and_a_pipeline_cannot_have_one_folder(shop: Shop) -> None:
    """A table that takes the name of one that was there before is refused, and nothing of it is touched."""
    shop.declare(YAML)
    numbers(shop, 1)
    shop.run()
    shop.declare(YAML.replace("type: delta}", "type: delta, table: raw}"), entries="SELECT * FROM raw")
    refused = shop.run(expect=2)
    assert "entries" in refused.err
    assert Path(shop.root / "lake" / "entries").is_dir()
