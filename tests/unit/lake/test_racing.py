"""Two processes that own one table: each version is won once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.unit.lake.samples import NAME, created, said, shape_of
from tidegate.lake.table import LakeTable

VERSIONS = 1000

RACES = f"""\
import json, sys
from tidegate import errors
from tidegate.lake.log import Kind, Metadata
from tidegate.lake.table import LakeTable

table = LakeTable(sys.argv[1], "{NAME}", checkpoint_every=10**9)
head, won, lost = table.head(), {{}}, 0
print("ready", flush=True)
sys.stdin.readline()
while head.version < {VERSIONS}:
    said = Metadata(kind=Kind.PUBLISH, table="", owner="{NAME}", epoch=1, token=1, end=head.version)
    try:
        head = table.commit(said, onto=head)
        won[head.version] = head.metadata.id
    except errors.LakeConflict:
        lost += 1
        head = table.head()
json.dump({{"won": won, "lost": lost}}, sys.stdout)
"""


def test_of_a_thousand_commits_each_version_is_won_by_one_of_two_owners(tmp_path: Path) -> None:
    created(tmp_path).create(shape_of(), said())
    script = [sys.executable, "-c", RACES, str(tmp_path)]
    pipe = subprocess.PIPE
    owners = [subprocess.Popen(script, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    try:
        for owner in owners:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "ready\n"
        for owner in owners:
            assert owner.stdin is not None
            owner.stdin.write("go\n")
            owner.stdin.flush()
        told = [json.loads(owner.communicate(timeout=120)[0]) for owner in owners]
    finally:
        for owner in owners:
            owner.kill()
            owner.communicate()
    first, second = (one["won"] for one in told)
    assert first
    assert second
    assert sum(one["lost"] for one in told) > 0
    assert not first.keys() & second.keys()
    won = {int(version): token for version, token in (first | second).items()}
    there = LakeTable(str(tmp_path), NAME).versions(1)
    assert won == {one.version: one.metadata.id for one in there if one.metadata is not None}
    assert sorted(won) == list(range(1, len(there) + 1))
    assert len(there) >= VERSIONS
    # Each of them was decided on the version right before it.
    assert all(one.metadata is not None and one.metadata.end == one.version - 1 for one in there)
