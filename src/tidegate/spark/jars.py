"""The jars that Spark needs beside its own, fetched once and verified; afterwards no network is needed.

`ivy.xml` beside this file is the lock, `jars.sha256` its checksums. The Ivy that ships inside
PySpark fetches them from Maven Central. Three variables change where from and where to:
`TIDEGATE_MAVEN` is the URL of a mirror, `TIDEGATE_IVYSETTINGS` a whole ivysettings.xml (for a
mirror with a login), `TIDEGATE_CACHE` the folder of the cache.

`python -m tidegate.spark.jars` fetches what is missing and prints the paths.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate import errors

HERE = Path(__file__).parent
LOCK = HERE / "ivy.xml"
CHECKSUMS = HERE / "jars.sha256"
MIRROR_SETTINGS = HERE / "ivysettings.xml"

FETCH_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the jars come from and where they are kept."""

    cache: Path
    mirror: str | None = None
    settings: Path | None = None
    java: str = "java"

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Places:
        """The places that the environment names."""
        home = environment.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        settings = environment.get("TIDEGATE_IVYSETTINGS")
        java_home = environment.get("JAVA_HOME")
        return cls(
            cache=Path(environment.get("TIDEGATE_CACHE") or os.path.join(home, "tidegate")),
            mirror=environment.get("TIDEGATE_MAVEN") or None,
            settings=Path(settings) if settings else None,
            java=os.path.join(java_home, "bin", "java") if java_home else "java",
        )

    @property
    def folder(self) -> Path:
        """The folder of exactly the locked jars: another lock is another folder."""
        lock = hashlib.sha256(LOCK.read_bytes() + CHECKSUMS.read_bytes()).hexdigest()
        return self.cache / "jars" / lock[:16]


def locked() -> dict[str, str]:
    """The file name of each locked jar and its SHA-256."""
    pairs = (line.split() for line in CHECKSUMS.read_text().splitlines() if line.strip())
    return {name.lstrip("*"): digest for digest, name in pairs}


def fetch(places: Places | None = None) -> tuple[Path, ...]:
    """The locked jars, fetched where they are missing.

    A filled cache is trusted by name: a jar gets its name only once its checksum was right.
    :raises SparkUnavailable: they cannot be fetched, or one is not what the lock says.
    """
    places = places or Places.of_environment()
    wanted = locked()
    folder = places.folder
    if any(not (folder / name).is_file() for name in wanted):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
            _retrieve(places, Path(scratch))
            for name, digest in wanted.items():
                _verify(Path(scratch) / name, digest)
                os.replace(Path(scratch) / name, folder / name)
    return tuple(folder / name for name in sorted(wanted))


def _retrieve(places: Places, into: Path) -> None:
    command = [places.java]
    if places.settings is not None:
        settings = ["-settings", str(places.settings)]
    elif places.mirror is not None:
        command.append(f"-Dtidegate.maven={places.mirror}")
        settings = ["-settings", str(MIRROR_SETTINGS)]
    else:
        settings = []
    command += ["-jar", str(_ivy()), "-warn", *settings, "-ivy", str(LOCK), "-cache", str(into / "ivy")]
    command += ["-retrieve", f"{into}/[artifact]-[revision].[ext]"]
    if shutil.which(places.java) is None:
        raise errors.SparkUnavailable(
            why="no Java was found", hint="install Java 17 or newer (Debian: openjdk-17-jre-headless) or set JAVA_HOME"
        )
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as slow:
        raise _unfetched(f"no answer within {FETCH_TIMEOUT_S} s") from slow
    if done.returncode != 0:
        said = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        telling = [line for line in said if "not found" in line or "rror" in line or "xception" in line]
        raise _unfetched("; ".join((telling or said or ["Ivy gave no reason"])[:3]))


def _verify(jar: Path, digest: str) -> None:
    if not jar.is_file():
        raise _unfetched(f"{jar.name} did not come")
    with open(jar, "rb") as read:
        actual = hashlib.file_digest(read, "sha256").hexdigest()
    if actual != digest:
        raise _unfetched(f"{jar.name} is not the locked one (SHA-256 {actual}, not {digest})")


def _unfetched(why: str) -> errors.SparkUnavailable:
    return errors.SparkUnavailable(
        why=f"its jars could not be fetched: {why}",
        hint="check the way to Maven Central, or set TIDEGATE_MAVEN to a mirror; a filled cache needs no network",
    )


def _ivy() -> Path:
    """The Ivy inside PySpark; PySpark itself is not imported."""
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise errors.SparkUnavailable(why="PySpark is not installed", hint="run `make setup`, or pip install pyspark")
    jars = sorted(Path(found.submodule_search_locations[0], "jars").glob("ivy-*.jar"))
    if not jars:
        raise errors.SparkUnavailable(why="this PySpark brings no Ivy", hint="install the pyspark of requirements.lock")
    return jars[-1]


def main() -> int:
    """Fetch, and print where the jars are."""
    try:
        for jar in fetch():
            sys.stdout.write(f"{jar}\n")
    except errors.TidegateError as failed:
        sys.stderr.write(f"{failed.code} {failed.message}\n{failed.hint}\n")
        return failed.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
