"""A disk that is full: named errors, nothing half-done, and the old versions stay readable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# A small file system of its own where that is allowed; elsewhere the kernel refuses to let files grow, which the
# tests of each store do besides.
CHILD = """
import ctypes, os, resource, signal, sys
from pathlib import Path
from tidegate import errors
from tidegate.ledger.contract import Put
from tidegate.ledger.stores import open_store

place, url = Path(sys.argv[1]), sys.argv[2]
libc = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS, PRIVATE = 0x00020000, 0x00040000 | 0x4000
is_small = libc.unshare(NEW_MOUNTS) == 0 and libc.mount(None, b"/", None, PRIVATE, None) == 0 and libc.mount(
    b"tmpfs", os.fsencode(place), b"tmpfs", 0, b"size=1m") == 0
store = open_store(url, root=place)
store.put("a", b"0")
if not is_small:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
told = done = 0
while not told:
    size = 90_000 if is_small else 90_000 * (done + 1)
    big = Put(key=f"big/{done}", body=os.urandom(size), expect=None)
    both = [Put(key="a", body=b"%d" % (done + 1), expect=done + 1), big]
    try:
        store.transaction(both)
        done += 1
    except errors.LedgerUnreachable as error:
        told = error
    assert done < 30, "it never was full"
assert done >= 2
# What went wrong in the middle of a commit may yet be found whole; nothing is ever half.
assert int(store.get("a").body) == len(store.list("big/")) >= done
assert [len(document.body) for document in store.scan("big/")]
assert store.versions("a")[0].version == 1
store.close()
print(told)
"""


@pytest.mark.parametrize("url", ["sqlite:///ledger.db", "file:ledger"])
def test_a_full_disk_is_told_and_what_was_there_stays(tmp_path: Path, url: str) -> None:
    """Several writes that do not fit change nothing; those that fitted are whole."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), url], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be used" in done.stdout or "went away while" in done.stdout
