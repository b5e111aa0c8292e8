"""The Spark session of a run: started or reached when it is first needed, and quiet.

The JVM is started by us and not by `SparkSession.builder`, for three reasons: its output goes to
`.tidegate/logs/spark.log` and never to our standard output; it is in a session of its own, so that
a Ctrl-C or a SIGTERM to the group reaches Python, which drains, and not the JVM under it; and
it ends with its Python, since its standard input is a pipe from it.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from tidegate import errors
from tidegate.spark import jars
from tidegate.spark.settings import DEFAULT_MASTER, SparkSettings

LOG4J = Path(__file__).parent / "log4j2.properties"
MAX_LOG_BYTES = 8 * 1024 * 1024
_LOUD = ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger")
#: What Spark's workers run where PYSPARK_PYTHON does not say: another one than ours, outside of an active environment.
_ANY_PYTHON = "python3"
POOL = "spark.scheduler.pool"

#: What may be set on any session at any time. The measured ones are argued in docs/decisions.
SESSION_CONF: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # INT96, Spark's default, leaves no statistics
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # lists of up to so many paths are listed by the driver: a job for that costs 6 s at 1,000 paths
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    # with the default of 4 MB every small file becomes a task of its own
    "spark.sql.files.openCostInBytes": "1024",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # a Delta snapshot of few files needs no 50 tasks: 3 s a read
    "spark.databricks.delta.snapshotPartitions": "2",
    # a value that does not fit must not be read as another one
    "spark.sql.json.filterPushdown.enabled": "false",
    "spark.sql.csv.filterPushdown.enabled": "false",
}

#: What must be known when Spark starts.
START_CONF: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # where in Python each expression was made: six round trips an expression, 0.1 s a checkpoint
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # a staged folder counts only once its receipt is stored: one rename less, no _SUCCESS file
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # the local file system without files of checksums beside each file, which cannot open `2026-03-01T12:05:00Z.json`
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}

#: A machine without a resolvable name still reaches itself.
LOCAL_CONF: Mapping[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

_starting = threading.Lock()


def configuration(settings: SparkSettings, *, name: str, root: Path, jar_paths: tuple[Path, ...]) -> dict[str, str]:
    """All settings of the session, those of the project over ours; pure."""
    conf = {
        "spark.app.name": f"tidegate {name}",
        "spark.master": settings.master or DEFAULT_MASTER,
        "spark.sql.warehouse.dir": (root / ".tidegate" / "cache" / "warehouse").as_uri(),
        **START_CONF,
        **(LOCAL_CONF if settings.is_local else {}),
        **SESSION_CONF,
        **settings.conf,
    }
    conf["spark.jars"] = _joined(",", *(str(jar) for jar in jar_paths), settings.conf.get("spark.jars", ""))
    conf["spark.driver.extraJavaOptions"] = _joined(
        " ", f'"-Dlog4j2.configurationFile={LOG4J}"', settings.conf.get("spark.driver.extraJavaOptions", "")
    )
    return conf


def _joined(separator: str, *texts: str) -> str:
    return separator.join(text for text in texts if text)


class Spark:
    """Spark as a run uses it. Nothing is started before `session` is asked for.

    A session that the process has already (a notebook, a test) is used and left alone at the end.
    """

    def __init__(self, settings: SparkSettings, *, name: str, root: Path) -> None:
        self.settings = settings
        self._name = name
        self._root = root.absolute()
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owned = False

    @property
    def session(self) -> SparkSession:
        """The session; the first to ask starts it.

        :raises SparkUnavailable: it cannot be started or reached.
        """
        with self._lock:
            if self._session is None:
                self._session = self._reach() if self.settings.remote is not None else self._start()
            return self._session

    def aside(self) -> SparkSession:
        """A session beside the main one: the same Spark and settings, and temporary views of its own.

        :raises SparkUnavailable: Spark cannot be started or reached.
        """
        with gone_is_unavailable():
            if self.settings.remote is not None:
                return self._reach()
            return _adopted(self.session.newSession())

    @property
    def started(self) -> bool:
        """Whether there is a session already."""
        return self._session is not None

    @property
    def is_gone(self) -> bool:
        """Whether the process that was started here has ended under us: no retry brings its session back."""
        return self._process is not None and self._process.poll() is not None

    @contextmanager
    def job(self, pipeline: str, tag: str) -> Iterator[SparkSession]:
        """Run this thread's jobs in the FAIR pool of the pipeline, so that `cancel(tag)` ends them.

        On Spark Connect there are no pools; tags work.
        :raises SparkUnavailable: Spark went away under the body.
        """
        session = self.session
        with gone_is_unavailable():
            session.addTag(tag)
            self._pool(session, pipeline)
            try:
                yield session
            finally:
                with suppress(Py4JError, PySparkException, ConnectionError):
                    session.removeTag(tag)
                    self._pool(session, None)

    def cancel(self, tag: str) -> None:
        """Interrupt the jobs that run under the tag, in whatever thread; none is fine, and a Spark that went away."""
        if self._session is not None:
            with suppress(Py4JError, PySparkException, ConnectionError):
                self._session.interruptTag(tag)

    def close(self) -> None:
        """Stop Spark if it was started here. Closing twice is fine."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None and self._owned:
            with suppress(Py4JError, PySparkException, ConnectionError):
                session.stop()

    def _pool(self, session: SparkSession, name: str | None) -> None:
        if self.settings.remote is None:
            # None takes the property away, which the stub does not know
            session.sparkContext.setLocalProperty(POOL, name)  # type: ignore[arg-type]

    def _start(self) -> SparkSession:
        with _starting:
            active = SparkContext._active_spark_context
            if active is not None:
                return _adopted(SparkSession(active))
            conf = configuration(self.settings, name=self._name, root=self._root, jar_paths=jars.fetch())
            session = self._launched(SparkConf(loadDefaults=False).setAll(list(conf.items())))
            self._owned = True
            return session

    def _launched(self, conf: SparkConf) -> SparkSession:
        # they log what they raise as well; the raised one is enough
        for name in _LOUD:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        log = _open_log(self._root)
        try:
            output = log or subprocess.DEVNULL
            how = {"stdout": output, "stderr": output, "start_new_session": True}
            gateway = SparkContext._gateway or launch_gateway(conf, how)  # type: ignore[no-untyped-call]
            self._process = getattr(gateway, "proc", None)
            context = SparkContext(conf=conf, gateway=gateway)
            if context.pythonExec == _ANY_PYTHON and self.settings.is_local:
                context.pythonExec = sys.executable
            return SparkSession(context)
        except (Py4JError, PySparkException, OSError) as failed:
            raise errors.SparkUnavailable(
                why=_first_line(failed), hint=f"see {_log_path(self._root)}, and the `spark:` of tidegate.yml"
            ) from failed
        finally:
            if log is not None:
                log.close()

    def _reach(self) -> SparkSession:
        remote = str(self.settings.remote)
        try:
            session = SparkSession.builder.remote(remote).create()
            return _adopted(session, self.settings.conf)
        except (ImportError, PySparkException, OSError) as failed:
            raise errors.SparkUnavailable(
                why=f"{remote} was not reached: {_first_line(failed)}",
                hint="check `spark.remote` of tidegate.yml; Spark Connect needs pip install 'pyspark[connect]'",
            ) from failed


@contextmanager
def gone_is_unavailable() -> Iterator[None]:
    """Turn the many ways in which a dead JVM shows itself into one error."""
    try:
        yield
    except (Py4JNetworkError, ConnectionError) as failed:
        raise gone() from failed


def gone() -> errors.SparkUnavailable:
    """The error for a Spark whose process ended under us."""
    return errors.SparkUnavailable(
        why="its process went away", hint="start again; what was not finished is found and done again"
    )


def _adopted(session: SparkSession, more: Mapping[str, str] | None = None) -> SparkSession:
    """The session with our settings, as far as they can be set on a running one."""
    for key, value in {**SESSION_CONF, **(more or {})}.items():
        session.conf.set(key, value)
    return session


def _log_path(root: Path) -> Path:
    return root / ".tidegate" / "logs" / "spark.log"


def _open_log(root: Path) -> IO[Any] | None:
    """The log of the JVM, begun anew when it has grown large; None where it cannot be written."""
    path = _log_path(root)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        grown = path.is_file() and path.stat().st_size > MAX_LOG_BYTES
        return open(path, "wb" if grown else "ab")
    return None


def _first_line(failed: BaseException) -> str:
    text = str(failed).strip()
    return text.splitlines()[0] if text else type(failed).__name__
