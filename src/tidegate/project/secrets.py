"""What must not be shown: credentials inside URLs, and values of keys that sound like secrets."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"

_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_PARAMETER = re.compile(r"(?<=[?&;])(?P<name>[A-Za-z0-9_.-]+)=(?P<value>[^&#;\s'\"]+)")
_SECRET_WORD = re.compile(r"password|passwd|passphrase|pwd|token|secret|credential|private|(?<![a-z])sas(?![a-z])")
_KEY = re.compile(r"(?:access|account|api|auth|encryption|master|ssl|signing|shared).?key|(?:^|[._-])key$")


def sounds_secret(name: str) -> bool:
    """True when the value of a key with this name must not be shown: passwords, tokens, keys, secrets."""
    lowered = name.lower()
    return bool(_SECRET_WORD.search(lowered) or _KEY.search(lowered))


def mask_credentials(text: str) -> str:
    """The text, without the user and password of the URLs in it, and their secret parameters."""
    return _PARAMETER.sub(_masked_parameter, _CREDENTIALS.sub(_masked_user, text))


def _masked_user(found: re.Match[str]) -> str:
    user, colon, _ = found[0].partition(":")
    return f"{user}:{MASK}" if colon else MASK


def _masked_parameter(found: re.Match[str]) -> str:
    return f"{found['name']}={MASK}" if sounds_secret(found["name"]) else found[0]


class Url(str):
    """Text that may hold credentials: its repr never shows them, and `shown` is what messages print."""

    __slots__ = ()

    @property
    def shown(self) -> str:
        """The text with its credentials masked."""
        return mask_credentials(self)

    def __repr__(self) -> str:
        return repr(self.shown)


class Options(dict[str, str]):
    """Settings that are handed on as they are; the repr masks values of keys that sound like secrets."""

    __slots__ = ()

    def shown(self) -> dict[str, str]:
        """The settings with secret values masked."""
        return {key: MASK if sounds_secret(key) else mask_credentials(value) for key, value in self.items()}

    def __repr__(self) -> str:
        return repr(self.shown())
