"""Real servers, each started once a session when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.azurite import Azurite
from tests.servers.postgres import Postgres
from tests.servers.s3 import S3


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A private Postgres; each test makes a database of its own in it."""
    if Postgres.programs() is None:
        pytest.skip("Postgres is not installed (scripts/setup-servers)")
    with Postgres() as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> str:
    """The URL of a new, empty database."""
    return postgres.new_database()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """A private S3 server; each test makes a bucket of its own in it."""
    if S3.program() is None:
        pytest.skip("no S3 server was built (scripts/setup-servers)")
    with S3() as server:
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """A private Azure server; each test makes a container of its own in it."""
    if Azurite.program() is None:
        pytest.skip("Azurite is not installed (scripts/setup-servers)")
    with Azurite() as server:
        yield server
