"""Seals: what was sealed opens, and nothing else does."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.ledger import sealing

BODIES = st.one_of(
    st.binary(max_size=300),
    st.integers(65_530, 65_540).map(bytes),
    st.binary(min_size=9, max_size=20).map(lambda piece: piece * 8000),
)
PLACES = st.tuples(st.sampled_from(["a", "a/b"]), st.integers(1, 2**40))


@given(BODIES, st.integers(0, 2**62), PLACES)
def test_what_was_sealed_opens(body: bytes, token: int, place: tuple[str, int]) -> None:
    """Body and token come back, whatever the size, compressed or not."""
    key, version = place
    opened = sealing.unseal(key, version, sealing.prepare(key, body, token=token).seal(version))
    assert (opened.body, opened.token) == (body, token)


def test_a_sealed_delete_has_no_body() -> None:
    """It is told from an empty body."""
    assert sealing.unseal("a", 2, sealing.prepare("a", None, token=3).seal(2)).body is None
    assert sealing.unseal("a", 2, sealing.prepare("a", b"", token=3).seal(2)).body == b""


def test_two_seals_of_one_body_differ() -> None:
    """So that a put whose reply was lost is told from a stranger's with the same body."""
    assert sealing.prepare("a", b"x").seal(1) != sealing.prepare("a", b"x").seal(1)


@given(BODIES, st.data())
def test_a_changed_byte_does_not_open(body: bytes, data: st.DataObject) -> None:
    """Any byte, header or body, changed to any other."""
    sealed = bytearray(sealing.prepare("a", body, token=3).seal(7))
    place = data.draw(st.integers(0, len(sealed) - 1) | st.integers(0, min(len(sealed) - 1, 90)))
    sealed[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(sealing.SealBroken):
        sealing.unseal("a", 7, bytes(sealed))


@given(BODIES, st.data())
def test_a_cut_or_longer_one_does_not_open(body: bytes, data: st.DataObject) -> None:
    """A half-written document is never read as good."""
    sealed = sealing.prepare("a", body, token=3).seal(7)
    cut = sealed[: data.draw(st.integers(0, len(sealed) - 1))]
    longer = sealed + data.draw(st.binary(min_size=1, max_size=20))
    zeroed = cut + bytes(len(sealed) - len(cut))  # as some file systems leave it after a power cut
    for torn in {cut, longer, zeroed} - {sealed}:
        with pytest.raises(sealing.SealBroken):
            sealing.unseal("a", 7, torn)


@given(BODIES, PLACES, PLACES)
def test_one_that_was_moved_does_not_open(body: bytes, there: tuple[str, int], here: tuple[str, int]) -> None:
    """A body opens only under its own key and version."""
    sealed = sealing.prepare(there[0], body).seal(there[1])
    if there != here:
        with pytest.raises(sealing.SealBroken):
            sealing.unseal(*here, sealed)


@given(st.binary(max_size=400) | st.binary(max_size=300).map(lambda tail: b"TG1 plain 0 0 0 0\n" + tail))
def test_noise_does_not_open(noise: bytes) -> None:
    """Whatever the bytes, the answer is that they are broken, and never another error."""
    with pytest.raises(sealing.SealBroken):
        sealing.unseal("a", 1, noise)


def test_a_newer_format_is_told() -> None:
    """The remedy is another one: install the newer Tidegate."""
    with pytest.raises(sealing.SealTooNew, match="format 2"):
        sealing.unseal("a", 1, b"TG2 whatever a newer one writes\n...")


def test_every_bit_of_a_small_document_counts() -> None:
    """Each one flipped alone, header and body: it does not open, and never as something else."""
    body = b'{"format":1,"epoch":3}'
    sealed = sealing.prepare("a", body, token=3).seal(7)
    for bit in range(8 * len(sealed)):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(sealing.SealBroken):
            sealing.unseal("a", 7, bytes(changed))


@pytest.mark.parametrize("compresses", [True, False])
def test_a_sample_of_the_bytes_of_a_large_document_counts(compresses: bool) -> None:
    """Of a megabyte, packed and not: the first ones, the last ones and some between."""
    rng = random.Random(5)
    body = b"0123456789" * 100_000 if compresses else rng.randbytes(1_000_000)
    sealed = sealing.prepare("a", body, token=3).seal(7)
    assert (len(sealed) < 100_000) is compresses
    places = {*range(100), *range(len(sealed) - 20, len(sealed)), *rng.choices(range(len(sealed)), k=60)}
    for place in places:
        changed = bytearray(sealed)
        changed[place] ^= rng.randrange(1, 256)
        with pytest.raises(sealing.SealBroken):
            sealing.unseal("a", 7, bytes(changed))


def test_a_packed_body_that_says_another_size_does_not_open() -> None:
    """Also not when whoever changed it made the checksum right: a size is a promise, and a bomb is not unpacked."""
    body = bytes(1_000_000)
    payload = sealing.prepare("a", body)
    for size in (0, 999_999, 1_000_001, sealing.MAX_BODY_BYTES + 1):
        forged = replace(payload, size_bytes=size).seal(7)
        with pytest.raises(sealing.SealBroken):
            sealing.unseal("a", 7, forged)
