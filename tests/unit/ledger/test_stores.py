"""From a URL to a store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import errors
from tidegate.ledger import urls
from tidegate.ledger.file import FileStore
from tidegate.ledger.sqlite import SqliteStore
from tidegate.ledger.stores import open_store


@pytest.mark.parametrize("kind", urls.KINDS.values(), ids=urls.KINDS)
def test_the_example_of_every_kind_opens(kind: urls.Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made, and no server is asked."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "tide")
    open_store(kind.example, root=tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_relative_to_the_project_or_absolute(tmp_path: Path) -> None:
    """`file:x` lies in the project, `file:///x` where it says."""
    for url, folder in (("file:a/b", tmp_path / "a/b"), ("file:./a", tmp_path / "a"), ("file:///a", Path("/a"))):
        store = open_store(url, root=tmp_path)
        assert isinstance(store, FileStore)
        assert Path(str(store.folder).replace("//", "/")) == folder


def test_drivers_are_loaded_by_who_uses_them(tmp_path: Path) -> None:
    """`status` of a project with SQLite loads neither Postgres's driver nor a client of object stores."""
    code = (
        "import sys; from pathlib import Path; from tidegate.ledger.stores import open_store\n"
        "open_store('sqlite:///x.db', root=Path(sys.argv[1])).get('a')\n"
        "print([name for name in ('psycopg', 'obstore', 'zstandard') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_memory_is_one_ledger_per_process_and_project(tmp_path: Path) -> None:
    """Opening it again finds what was put; another project finds nothing."""
    (tmp_path / "other").mkdir()
    open_store("memory:", root=tmp_path).put("a", b"1")
    assert open_store("memory:", root=tmp_path / "other" / "..").get("a") is not None
    assert open_store("memory:", root=tmp_path / "other").get("a") is None


def test_a_sqlite_url_is_relative_to_the_project_or_absolute(tmp_path: Path) -> None:
    """`sqlite:///a.db` lies in the project, `sqlite:////x/a.db` where it says."""
    inside = open_store("sqlite:///.tidegate/ledger.db", root=tmp_path)
    outside = open_store(f"sqlite:///{tmp_path}/else.db", root=tmp_path / "project")
    assert isinstance(inside, SqliteStore)
    assert isinstance(outside, SqliteStore)
    assert inside.path == tmp_path / ".tidegate/ledger.db"
    assert outside.path == tmp_path / "else.db"


@pytest.mark.parametrize(
    "url",
    ["", "memory", "memory:x", "ledger.db", "sqlite:///", "sqlite://x", "file:", "file://host/x", "postgresql://",
     "postgresql:///", "s3://", "s3:///x", "gs:bucket", "az://c#x", "mysql://h/db", "SQLITE:///x"],
)  # fmt: skip
def test_what_is_no_ledger_is_refused_with_one_that_works(url: str, tmp_path: Path) -> None:
    """The hint shows a URL that works."""
    with pytest.raises(errors.ConfigError) as refused:
        open_store(url, root=tmp_path)
    assert "sqlite:///.tidegate/ledger.db" in refused.value.hint
