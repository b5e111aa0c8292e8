"""Sealed bodies: what a store holds can be told from what a crash, a disk or a hand made of it.

A sealed body is one line of ASCII, then the body:

    TG1 plain 7 9f86d081884c7d65 1523 <32 hex digits>\\n{"name": "orders", ...}

format, coding (plain or zstd), writer token, nonce of this put, size of the plain body, digest. The
digest covers all of that line before it, the key, the version, and the stored bytes: a body that
was changed, cut short, or copied to another key or version does not verify. The nonce makes every
put unique, so that one whose reply was lost can be told from a stranger's.
"""

from __future__ import annotations

import hashlib
import os
from typing import NewType

from tidegate.quick import dataclass

Sealed = NewType("Sealed", bytes)

FORMAT = 1
#: Below this size zstd takes longer than writing the bytes it saves (benchmarks/bench_ledger.py: at 16 KiB
#: 1.6 times as long, from 64 KiB on no longer).
COMPRESS_FROM_BYTES = 64 * 1024
#: A body never unpacks to more than this, whatever its header says.
MAX_BODY_BYTES = 64 * 1024 * 1024

_MAGIC = b"TG"
_MAX_HEADER_BYTES = 160


class SealBroken(Exception):
    """The stored bytes are not what was sealed under this key and version."""


class SealTooNew(SealBroken):
    """The stored bytes were sealed by a newer Tidegate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A body made ready to be sealed, before its version is known."""

    key: str
    token: int
    coding: str
    stored: bytes
    size_bytes: int
    nonce: str

    def seal(self, version: int) -> Sealed:
        """The bytes to store as this version."""
        head = f"TG{FORMAT} {self.coding} {self.token} {self.nonce} {self.size_bytes} ".encode("ascii")
        digest = _digest(head, self.key, version, self.stored)
        return Sealed(b"%s%s\n%s" % (head, digest, self.stored))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A body that verified, and who wrote it. The body is None where a delete was sealed."""

    body: bytes | None
    token: int


def prepare(key: str, body: bytes | None, *, token: int = 0) -> Payload:
    """A payload for the body, compressed where that pays; None seals the fact of a delete."""
    coding, stored = ("gone", b"") if body is None else _encode(body)
    return Payload(
        key=key,
        token=token,
        coding=coding,
        stored=stored,
        size_bytes=0 if body is None else len(body),
        nonce=os.urandom(8).hex(),
    )


def unseal(key: str, version: int, sealed: bytes) -> Opened:
    """The body sealed under this key and version.

    :raises SealTooNew: the format number is above ours.
    :raises SealBroken: anything else that is not exactly what was sealed.
    """
    head, digest, stored = _split(sealed)
    _check_format(head)
    if _digest(head, key, version, stored) != digest:
        raise SealBroken("its checksum does not match")
    _, coding, token, _, size = head.split()
    body = _decode(coding, stored, int(size))
    return Opened(body=body, token=int(token))


def _split(sealed: bytes) -> tuple[bytes, bytes, bytes]:
    end = sealed.find(b"\n", 0, _MAX_HEADER_BYTES)
    if end < 0:
        raise SealBroken("it has no header" if sealed else "it is empty")
    cut = sealed.rfind(b" ", 0, end) + 1
    return sealed[:cut], sealed[cut:end], sealed[end + 1 :]


def _check_format(head: bytes) -> None:
    name = head.split(b" ", 1)[0]
    number = name.removeprefix(_MAGIC)
    if not name.startswith(_MAGIC) or not number.isdigit():
        raise SealBroken("it is not a document of Tidegate")
    if int(number) > FORMAT:
        raise SealTooNew(f"it has format {int(number)}, this Tidegate reads up to {FORMAT}")


def _digest(head: bytes, key: str, version: int, stored: bytes) -> bytes:
    state = hashlib.blake2b(head, digest_size=16)
    state.update(b"%s\n%d\n" % (key.encode(), version))
    state.update(stored)
    return state.hexdigest().encode("ascii")


def _encode(body: bytes) -> tuple[str, bytes]:
    if len(body) < COMPRESS_FROM_BYTES:
        return "plain", body
    import zstandard  # noqa: PLC0415 -- small documents, and so `status`, never pay for it

    packed = zstandard.ZstdCompressor(level=1).compress(body)
    return ("zstd", packed) if len(packed) < len(body) else ("plain", body)


def _decode(coding: bytes, stored: bytes, size: int) -> bytes | None:
    if coding == b"gone":
        return None
    if coding == b"plain" and size == len(stored):
        return stored
    if coding != b"zstd" or size > MAX_BODY_BYTES:
        raise SealBroken(f"its coding {coding.decode('ascii', 'replace')} of {size} bytes is unknown")
    import zstandard  # noqa: PLC0415 -- as above

    try:
        if zstandard.frame_content_size(stored) != size:
            raise SealBroken(f"it does not unpack to {size} bytes")  # nor to what a frame may claim instead
        return zstandard.ZstdDecompressor().decompress(stored)
    except zstandard.ZstdError as error:
        raise SealBroken(f"it does not unpack: {error}") from error
