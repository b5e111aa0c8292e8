"""What went wrong in a try, as a value: its code, one line of text, and whether trying again may help."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tidegate import errors
from tidegate.progress.retries import Severity

_MAX_TEXT: Final = 400
_TRANSIENT_ERRORS: Final = (
    errors.SinkUnavailable,
    errors.SourceUnreachable,
    errors.LedgerUnreachable,
    errors.SparkUnavailable,
)
#: What Spark reports when the disk, the network or the cluster is to blame, and not the rows.
_TRANSIENT_WORDS: Final = re.compile(
    r"No space left|Connection (?:refused|reset|timed out)|TimeoutException|ExecutorLost|FetchFailed"
    r"|Too many open files|java\.io\.IOException|cancelled|shut ?down",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a try failed. `sink` None: before any sink was reached."""

    sink: str | None
    code: str
    message: str
    severity: Severity

    @property
    def is_transient(self) -> bool:
        """Whether trying again may help."""
        return self.severity is Severity.TRANSIENT


def fault_of(error: BaseException, *, sink: str | None = None) -> Fault:
    """The fault that an exception of a try stands for."""
    if isinstance(error, errors.TidegateError):
        severity = Severity.TRANSIENT if isinstance(error, _TRANSIENT_ERRORS) else Severity.PERMANENT
        return Fault(sink=sink, code=error.code, message=error.message, severity=severity)
    text = told(error)
    transient = isinstance(error, OSError) or bool(_TRANSIENT_WORDS.search(str(error)))
    severity = Severity.TRANSIENT if transient else Severity.PERMANENT
    code = errors.SinkUnavailable.code if transient else errors.SinkRejected.code
    return Fault(sink=sink, code=code, message=text, severity=severity)


def told(error: BaseException) -> str:
    """The line of a foreign error that says most: of a Java stack the last cause, else the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    text = (causes or lines or [type(error).__name__])[-1 if causes else 0]
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
