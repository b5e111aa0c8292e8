"""Where things of a project are: folders on this machine, and the ledger's URL. What is not built yet says so."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from tidegate.ledger import urls
from tidegate.project.secrets import Url

FILE: Final = "tidegate.yml"
STATE: Final = ".tidegate"  #: ledger, logs and caches, inside the project
DEFAULT_LEDGER: Final = Url(f"sqlite:///{STATE}/ledger.db")
DEFAULT_LAKE: Final = "./lake"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://)?")
_LATER_FOLDERS: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss", "hdfs")


def check_ledger(text: str) -> Url:
    """The URL when a ledger can be there; ValueError says why not."""
    urls.check_url(text)
    return Url(text)


def check_lake(text: str) -> str:
    """The folder, as it is written; ValueError says why it cannot be one."""
    return check_folder(text)


def check_folder(text: str) -> str:
    """The folder on this machine, as it is written; ValueError says why it cannot be one."""
    scheme = _scheme(text)
    if scheme in _LATER_FOLDERS:
        raise ValueError(f"{scheme}: places are not built yet; there are folders of this machine")
    if scheme is not None:
        raise ValueError("a folder has no scheme; write its path")
    if not text.strip() or text != text.strip() or "\0" in text:
        raise ValueError
    if text.startswith("~"):
        raise ValueError("~ is not expanded here; write ${HOME}")
    return text


def check_external(text: str) -> str:
    """The folder of somebody's Delta table; ValueError says why it cannot be one."""
    if _scheme(text) in {"postgresql", "postgres"}:
        raise ValueError("tables of Postgres are not built yet; there are folders of Delta tables")
    return check_folder(text)


def absolute(root: Path, text: str) -> Path:
    """The place that the text names, relative to the project when it is relative; `..` is resolved by name."""
    return Path(os.path.normpath(root / text))


def overlap(one: Path, other: Path) -> bool:
    """Whether one is the other, or lies inside it."""
    return one.is_relative_to(other) or other.is_relative_to(one)


def _scheme(text: str) -> str | None:
    found = _SCHEME.match(text)
    return found[1].lower() if found else None
