"""SIGKILL before and after every durable effect of a run.

The driver and its JVM die at once, as on a machine that goes dark.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.campaign import Campaign, campaign, points
from tidegate import effects
from tidegate.testing.crash import Hit, Point

pytestmark = [pytest.mark.spark, pytest.mark.crash]

NTH = {effects.LEDGER_PUT: 12, effects.LAKE_STAGE: 2, effects.PARQUET_STAGE: 2}


@pytest.fixture(scope="module", name="campaign")
def the_campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    """One project for all kills of this file."""
    with campaign(tmp_path_factory.mktemp("campaign")) as made:
        yield made


@pytest.mark.parametrize("point", points(Hit.BOTH, NTH), ids=str)
def test_killed_at(campaign: Campaign, point: Point) -> None:
    """The point is reached and strikes, and nobody who reads meanwhile sees anything wrong."""
    campaign.strike(point)
    assert campaign.reader.problems == []


def test_nothing_is_lost_nothing_is_twice_and_nothing_was_beyond_the_mark(campaign: Campaign) -> None:
    """After all kills one run in peace leaves every id once in every sink.

    Until then the reader has seen 20 marks, a gap that healed and a prune; and nothing was written
    outside of a point.
    """
    assert campaign.judge() == []
