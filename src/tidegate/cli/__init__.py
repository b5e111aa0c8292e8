"""The `tidegate` command: parse, call `Service`, render."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Final

#: So many new objects before Python looks for circles among them: loading a command makes more than the usual 700.
_GARBAGE_AFTER: Final = 50_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code."""
    gc.set_threshold(_GARBAGE_AFTER)
    from tidegate.cli.app import run

    code = run(list(sys.argv[1:] if argv is None else argv))
    # The process ends: what is left need not be looked through.
    gc.freeze()
    return code
