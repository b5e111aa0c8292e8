"""Completions in any order become one unbroken mark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tidegate.progress.ranges import EMPTY, Range, RangeSet

_WIDTH: Final = 1024
_FULL: Final = (1 << _WIDTH) - 1
_BIT: Final = tuple(1 << at for at in range(_WIDTH))


class Completion(NamedTuple):
    """What a completion did."""

    end: int
    """The first number that is not complete."""
    advanced: Range
    """What the unbroken mark passed just now."""
    duplicates: int
    """How many of the numbers were complete before, or lie below the start: harmless, and counted."""


class CommitTracker:
    """Knows the end of the unbroken prefix while completions arrive in any order.

    What is complete beyond the prefix is kept in blocks of 1,024 numbers, one bit each; a full block
    becomes part of a range. So one completion costs the same whatever has arrived before, and memory
    follows the gaps. Replayed, duplicate and stale completions change nothing.
    """

    __slots__ = ("_blocks", "_end", "_full", "_parts", "_start", "duplicates")

    def __init__(self, start: int, committed: RangeSet = EMPTY) -> None:
        """Begin at `start` with `committed` done already; numbers below `start` count as complete."""
        self._start = self._end = start
        self._blocks: dict[int, int] = {}
        self._full = EMPTY  # of block numbers
        self._parts: dict[int, tuple[int, RangeSet]] = {}
        self.duplicates = 0
        for done in committed:
            self.complete(done)
        self.duplicates = 0

    @property
    def start(self) -> int:
        """The first number it was asked to watch."""
        return self._start

    @property
    def end(self) -> int:
        """The first number that is not complete."""
        return self._end

    @property
    def ahead(self) -> RangeSet:
        """What is complete beyond a gap."""
        ranges = [Range(block.lo * _WIDTH, block.hi * _WIDTH) for block in self._full]
        for block, bits in self._blocks.items():
            ranges += _runs(bits, block * _WIDTH)
        return RangeSet(ranges) - Range(min(self._start, self._end) - _WIDTH, self._end)

    @property
    def committed(self) -> RangeSet:
        """All that is complete from the start on."""
        return self.ahead | Range(self._start, self._end)

    @property
    def gaps(self) -> RangeSet:
        """What is missing below the highest completion."""
        ahead = self.ahead
        return ahead.gaps(Range(self._end, ahead.hi)) if ahead.hi is not None else EMPTY

    @property
    def partial(self) -> RangeSet:
        """Numbers of which some parts have arrived, and not all."""
        return RangeSet.of(*(number for number in self._parts if number not in self))

    def room(self, max_ahead: int) -> Range:
        """What may be in work or done when nothing runs more than `max_ahead` numbers past a gap."""
        return Range(self._end, self._end + max_ahead)

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int) or number < self._start:
            return False
        block, at = divmod(number, _WIDTH)
        return number < self._end or block in self._full or bool(self._blocks.get(block, 0) & _BIT[at])

    def complete_one(self, number: int) -> int:
        """One number is complete; the answer is the end of the unbroken prefix."""
        end = self._end
        if number == end and not self._blocks and not self._full and not self._parts:
            self._end = end + 1
            return end + 1
        if number < end:
            self.duplicates += 1
            return end
        block = number // _WIDTH
        bits = self._blocks.get(block, 0)
        bit = _BIT[number % _WIDTH]
        if bits & bit or (not bits and self._full and block in self._full):
            self.duplicates += 1
            return end
        self._set(block, bits | bit)
        return self._advance() if number == end else end

    def complete_many(self, numbers: Iterable[int]) -> Completion:
        """Several numbers are complete, in any order."""
        end, duplicates = self._end, self.duplicates
        for number in numbers:
            self.complete_one(number)
        return Completion(self._end, Range(end, self._end), self.duplicates - duplicates)

    def complete(self, done: Range) -> Completion:
        """All numbers of the range are complete."""
        end, lo = self._end, max(done.lo, self._end)
        duplicates = min(lo, done.hi) - done.lo
        if lo < done.hi:
            duplicates += self._mark(lo, done.hi)
        self.duplicates += duplicates
        return Completion(self._advance(), Range(end, self._end), duplicates)

    def complete_part(self, number: int, rows: Range, total: int) -> Completion:
        """Rows `[lo, hi)` of the `total` rows of one checkpoint are complete.

        The checkpoint is, once all its rows are; one without rows is at once. Parts that repeat or
        overlap count once.
        """
        known, seen = self._parts.get(number, (total, EMPTY))
        if known != total or rows.hi > total or rows.lo < 0:
            raise ValueError(f"rows {rows} of {total} do not fit checkpoint {number}, which has {known} rows")
        if number in self or number < self._start or (rows and seen.covers(rows)):
            self.duplicates += 1
            return Completion(self._end, Range(self._end, self._end), 1)
        seen |= rows
        if seen.covers(Range(0, total)):
            self._parts.pop(number, None)
            return self.complete(Range.one(number))
        self._parts[number] = (total, seen)
        return Completion(self._end, Range(self._end, self._end), 0)

    def _set(self, block: int, bits: int) -> None:
        if bits == _FULL:
            self._blocks.pop(block, None)
            self._full |= Range.one(block)
        else:
            self._blocks[block] = bits

    def _mark(self, lo: int, hi: int) -> int:
        """Set the bits of [lo, hi); how many were set before."""
        first, last = lo // _WIDTH, (hi - 1) // _WIDTH
        before = self._mark_block(first, lo % _WIDTH, hi - first * _WIDTH)
        if last > first:
            before += self._mark_blocks(Range(first + 1, last))
            before += self._mark_block(last, 0, hi - last * _WIDTH)
        return before

    def _mark_block(self, block: int, at: int, to: int) -> int:
        to = min(to, _WIDTH)
        wanted = (1 << to) - (1 << at)
        bits = _FULL if block in self._full else self._blocks.get(block, 0)
        if bits != _FULL:
            self._set(block, bits | wanted)
        return (bits & wanted).bit_count()

    def _mark_blocks(self, blocks: Range) -> int:
        """Fill whole blocks at once; how many of their numbers were set before."""
        if not blocks:
            return 0
        before = (self._full & blocks).size * _WIDTH
        inside = [b for b in self._blocks if b in blocks] if len(self._blocks) < len(blocks) else blocks
        before += sum(self._blocks.pop(block, 0).bit_count() for block in inside)
        self._full |= blocks
        return before

    def _advance(self) -> int:
        """Move the end over what is complete there, and forget the blocks it has left."""
        while self._blocks or self._full:
            block, at = divmod(self._end, _WIDTH)
            if block in self._full:
                self._end = self._full.prefix_end(block) * _WIDTH
                self._full -= Range(block, self._full.prefix_end(block))
                continue
            bits = self._blocks.get(block, 0) >> at
            self._end += ((bits + 1) & ~bits).bit_length() - 1
            if self._end < (block + 1) * _WIDTH:
                break
            del self._blocks[block]
        for number in [n for n in self._parts if n < self._end]:
            del self._parts[number]
        return self._end


def _runs(bits: int, offset: int) -> list[Range]:
    """The runs of set bits, as ranges that begin at `offset`."""
    runs = []
    at = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        ones = ((bits + 1) & ~bits).bit_length() - 1
        bits >>= ones
        runs.append(Range(offset + at + zeros, offset + at + zeros + ones))
        at += zeros + ones
    return runs
