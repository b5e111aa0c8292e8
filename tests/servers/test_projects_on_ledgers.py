"""A whole project on each ledger that is not a file of SQLite: run, go on, and the same rows as anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.postgres import Postgres
from tests.servers.s3 import ENVIRONMENT, S3
from tidegate.ledger import maintenance
from tidegate.service import Service

pytestmark = [pytest.mark.server, pytest.mark.spark]

YAML = """\
name: shop
ledger: {ledger}
spark: {{master: "local[2]"}}
sources:
  ticks: {{type: generator, checkpoints: {checkpoints}, rows_per_checkpoint: 10}}
pipelines:
  ticks:
    source: ticks
    sinks: [{{name: lake, type: delta}}, {{name: files, type: parquet, path: out/ticks}}]
"""


@pytest.fixture(params=["file", "postgres", "s3"])
def ledger(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty one."""
    if request.param == "file":
        return "file:.tidegate/ledger"
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        return server.new_database()
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    s3: S3 = request.getfixturevalue("s3")
    return s3.url(s3.new_bucket())


def test_a_project_runs_and_goes_on(ledger: str, tmp_path: Path) -> None:
    """Two runs: what the first one did is known to the second, nothing is lost and nothing is there twice."""
    for checkpoints in (3, 5):
        (tmp_path / "tidegate.yml").write_text(YAML.format(ledger=ledger, checkpoints=checkpoints))
        with Service.open(tmp_path) as service:
            assert service.run(once=True).exit_code == 0
            status = service.status()
            assert status.healthy, status.problems
            pipeline = status.pipelines["ticks"]
            assert pipeline.checkpoint_hi_inclusive == pipeline.published_hi_inclusive == checkpoints - 1
            ids = service.read("ticks").rows.column("id").to_pylist()
            assert sorted(ids) == list(range(checkpoints * 10))
            assert service.store.list("pipelines/ticks/plans/") == []
            assert maintenance.check(service.store).findings == ()
