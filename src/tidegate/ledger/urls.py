"""Which URLs name a ledger. Light: every project that is loaded asks, whatever its ledger."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Kind(NamedTuple):
    """A kind of ledger: how its URL is written, one that works, and what it must look like."""

    shape: str
    example: str
    pattern: str


_DATABASE: Final = r"[a-z]+://([^/].*|/[^/]+.*)"
_BUCKET: Final = r"[a-z0-9]+://[^/?#]+(/[^?#]*)?(\?[^#]*)?"
KINDS: Final = {
    "sqlite": Kind("sqlite:///FILE", "sqlite:///.tidegate/ledger.db", r"sqlite:///[^?#]*[^/?#]"),
    "postgresql": Kind("postgresql://HOST/DATABASE", "postgresql://shop@db.example/shop", _DATABASE),
    "s3": Kind("s3://BUCKET/PREFIX", "s3://lake/shop/ledger", _BUCKET),
    "gs": Kind("gs://BUCKET/PREFIX", "gs://lake/shop/ledger", _BUCKET),
    "az": Kind("az://CONTAINER/PREFIX", "az://lake/shop/ledger", _BUCKET),
    "file": Kind("file:DIR", "file:.tidegate/ledger", r"file:(?!//[^/])[^?#]+"),
    "memory": Kind("memory:", "memory:", r"memory:"),
}
_ALSO: Final = {"postgres": "postgresql"}


def check_url(url: str) -> str:
    """The scheme of a ledger's URL; ValueError says what is wrong with it, without showing it."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", url)
    scheme = found[1] if found else ""
    scheme = _ALSO.get(scheme, scheme)
    if scheme not in KINDS:
        raise ValueError(f"there are {', '.join(kind.shape for kind in KINDS.values())}")
    kind = KINDS[scheme]
    if not re.fullmatch(kind.pattern, url):
        raise ValueError(f"it is written {kind.shape}, as in {kind.example}")
    return scheme
