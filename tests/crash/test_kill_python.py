"""SIGKILL before and after every durable effect of a run.

The driver dies alone: its JVM outlives it by seconds and goes on writing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.campaign import Campaign, campaign, points
from tidegate import effects
from tidegate.testing.crash import Hit, Point

pytestmark = [pytest.mark.spark, pytest.mark.crash]

NTH = {effects.LEDGER_PUT: 6}


@pytest.fixture(scope="module", name="campaign")
def the_campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    """One project for all kills of this file."""
    with campaign(tmp_path_factory.mktemp("campaign")) as made:
        yield made


@pytest.mark.parametrize("point", points(Hit.PYTHON, NTH), ids=str)
def test_killed_at(campaign: Campaign, point: Point) -> None:
    """The point is reached and strikes, and nobody who reads meanwhile sees anything wrong."""
    campaign.strike(point)
    assert campaign.reader.problems == []


def test_nothing_is_lost_nothing_is_twice_and_nothing_was_beyond_the_mark(campaign: Campaign) -> None:
    """After all kills one quiet run ends with every id once in every sink; the reader saw it all happen."""
    assert campaign.judge() == []
    assert campaign.gap_was_seen
    assert campaign.reader.prunes >= 1
    assert len(campaign.reader.marks) >= 20
