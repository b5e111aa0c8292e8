"""SQL of ours, kept in .sql files of named statements."""

from __future__ import annotations

from pathlib import Path


def read_statements(path: Path) -> dict[str, str]:
    """The statements of a file by their names; each begins with a line ``-- name: …``."""
    named = path.read_text(encoding="utf-8").split("-- name: ")[1:]
    return {name.strip(): sql.strip() for name, _, sql in (piece.partition("\n") for piece in named)}
