"""Real servers, each started once a session when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.postgres import Postgres


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A private Postgres; each test makes a database of its own in it."""
    if Postgres.programs() is None:
        pytest.skip("Postgres is not installed (scripts/setup-servers)")
    with Postgres() as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> str:
    """The URL of a new, empty database."""
    return postgres.new_database()
