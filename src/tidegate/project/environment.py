"""The one place that reads the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


class Unset(LookupError):
    """A variable that a setting refers to is not in the environment and has no default."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


def variables() -> Mapping[str, str]:
    """The environment as it is now."""
    return os.environ


def expand(text: str, environment: Mapping[str, str]) -> str:
    """The text with `${VAR}` and `${VAR:-default}` replaced; raises `Unset`.

    As in a shell, the default also stands in for a variable that is empty.
    """
    return _REFERENCE.sub(lambda found: _value(found, environment), text)


def refers(text: str) -> bool:
    """True when the text takes something from the environment."""
    return _REFERENCE.search(text) is not None


def _value(found: re.Match[str], environment: Mapping[str, str]) -> str:
    name, default = found["name"], found["default"]
    value = environment.get(name)
    if default is not None:
        return value or default
    if value is None:
        raise Unset(name)
    return value
