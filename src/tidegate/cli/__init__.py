"""The `tidegate` command: parse, call `Service`, render."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code."""
    from tidegate.cli.app import run

    return run(list(sys.argv[1:] if argv is None else argv))
