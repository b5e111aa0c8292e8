"""Writes the generated pages of docs/reference; `--check` only says whether they are as they should be."""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate.project.reference import settings_page

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
PAGES = {"settings.md": settings_page}


def main(arguments: list[str]) -> int:
    """Write the pages that differ; with `--check`, name them and end with 1."""
    stale = {name: text for name, page in PAGES.items() if (text := page()) != _present(name)}
    if "--check" not in arguments:
        REFERENCE.mkdir(parents=True, exist_ok=True)
        for name, text in stale.items():
            (REFERENCE / name).write_text(text, encoding="utf-8")
    for name in stale:
        sys.stdout.write(f"docs/reference/{name}\n")
    return 1 if stale and "--check" in arguments else 0


def _present(name: str) -> str | None:
    path = REFERENCE / name
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
