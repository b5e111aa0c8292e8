"""Keeps maintained tables fresh: looks at each in the order in which they read each other, and refreshes what may be.

The verdict is `judge`'s, what the commit says `contents`'; here both are carried out. A table is
leased for the time of its refresh; its log refuses what was decided on an older head.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tidegate import errors
from tidegate.clock import Clock, to_micros
from tidegate.lake import schemas
from tidegate.lake.log import Version
from tidegate.lake.table import LakeTable
from tidegate.ledger import leases
from tidegate.ledger.contract import Put, Store
from tidegate.ledger.leases import Keeper, Lease
from tidegate.progress.cut import Mode, Verdict
from tidegate.tables import contents, documents, graph, queries
from tidegate.tables.contents import How, Made
from tidegate.tables.documents import Happening, Row, TableDocument
from tidegate.tables.facts import Gatherer
from tidegate.tables.graph import Declared, Graph
from tidegate.tables.inputs import Lake
from tidegate.tables.judge import Facts, is_current, is_due, judge, newest
from tidegate.tables.schedules import Trigger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.lake.staging import Staged
    from tidegate.spark.session import Spark

Tell = Callable[[str, Mapping[str, object]], None]

#: How long the files of a version that was replaced stay for those who are reading it.
DELAY_US: Final = 600_000_000
SWEEP_AFTER_US: Final = 120_000_000
_FIRST_REST_US: Final = 1_000_000
_LONGEST_REST_US: Final = 60_000_000
_TRIES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What a maintainer is given."""

    declared: Declared
    store: Store
    lake: Lake
    spark: Spark
    clock: Clock
    tell: Tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """One refresh that was published."""

    table: str
    version: int
    how: How
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    """A refresh that failed: it is not tried again before, unless what it would read is another."""

    asked: tuple[object, ...]
    until_us: int
    rest_us: int


@dataclass(slots=True)
class _Desk:
    """What is remembered between two looks at a table."""

    rest: _Rest | None = None
    waited_on: tuple[object, ...] | None = None
    is_tidy: bool = False


class Maintainer:
    """The tables of a project, kept by one thread.

    `failed` and `waiting` are the tables that stood so at the last look.
    """

    def __init__(self, workshop: Workshop, only: Sequence[str]) -> None:
        """:raises ConfigError: a query does not parse, names nothing that is there, or closes a circle."""
        self._with = workshop
        self._graph: Graph = graph.build(workshop.declared, queries.references)
        self._only = tuple(name for name in self._graph.nodes if name in only)
        self._gatherer = Gatherer(
            declared=workshop.declared, graph=self._graph, store=workshop.store, lake=workshop.lake
        )
        self._desks = {name: _Desk() for name in self._only}
        self._session: SparkSession | None = None
        self.failed: set[str] = set()
        self.waiting: set[str] = set()

    def step(self, stop: threading.Event | None = None, *, again: bool = True) -> list[Refreshed]:
        """Look at every table once, inputs before those that read them, and refresh what is due and may be.

        A refresh that failed is tried again over the same inputs after a rest, or not at all.
        :raises StaleWriter: another runner took a table over in the middle of its refresh.
        """
        self._gatherer.forget()
        self._gatherer.hear()
        done: list[Refreshed] = []
        for name in self._only:
            if stop is not None and stop.is_set():
                break
            refreshed = self._look_at(name, again=again)
            if refreshed is not None:
                done.append(refreshed)
        return done

    def refresh(self, name: str, *, force: bool = False, full: bool = False) -> Refreshed | None:
        """Refresh one table now; None where it shows its cut already.

        :raises GateClosed: it waits for a source, and `force` was not said.
        :raises RefreshFailed: its query does not work out.
        :raises LeaseHeld: somebody else is refreshing it.
        """
        self._gatherer.forget()
        self._gatherer.hear()
        with self._leased(name) as lease:
            facts = self._facts(name)
            verdict = judge(facts)
            was_closed = verdict.is_closed
            if was_closed and force:
                verdict = newest(facts)
            if verdict.is_closed:
                raise errors.GateClosed(table=name, reason=verdict.reason or "its gate is closed")
            if is_current(facts, verdict) and not full:
                return None
            forced = Happening.FORCED if was_closed else Happening.REFRESHED
            return self._refresh(facts, verdict, lease, happening=forced, full=full)

    # looking

    def _look_at(self, name: str, *, again: bool) -> Refreshed | None:
        desk = self._desks[name]
        facts = self._facts(name)
        if not is_due(facts, wanted_below=self._is_wanted(name)):
            return None
        verdict = judge(facts)
        if verdict.is_closed:
            self._waits(facts, verdict)
            return None
        self.waiting.discard(name)
        desk.waited_on = None
        if is_current(facts, verdict):
            self.failed.discard(name)
            return None
        asked = (facts.spec.definition, *sorted(contents.versions_of(verdict).items()))
        rest = desk.rest
        if rest is not None and rest.asked == asked and (not again or rest.until_us > self._now_us()):
            return None
        try:
            return self._leased_refresh(name)
        except errors.LeaseHeld as held:
            self._with.tell("table_waits", {"table": name, "reason": held.message})
            self.waiting.add(name)
        except errors.LakeConflict:
            return None  # somebody was faster: the next look decides on what is there then
        except (errors.RefreshFailed, errors.LakeError) as failed:
            rest_us = _FIRST_REST_US if desk.rest is None else min(_LONGEST_REST_US, 2 * desk.rest.rest_us)
            desk.rest = _Rest(asked=asked, until_us=self._now_us() + rest_us, rest_us=rest_us)
            self.failed.add(name)
            self._with.tell("table_failed", {"table": name, "code": failed.code, "message": failed.message})
        return None

    def _leased_refresh(self, name: str) -> Refreshed | None:
        with self._leased(name) as lease:
            # Somebody may have refreshed it while the lease was waited for.
            facts = self._facts(name)
            verdict = judge(facts)
            if verdict.is_closed or is_current(facts, verdict):
                return None
            return self._refresh(facts, verdict, lease)

    def _facts(self, name: str) -> Facts:
        return self._gatherer.facts(name, documents.read(self._with.store, name))

    def _is_wanted(self, name: str) -> bool:
        """Whether a table above, whose own time has come, reads this one."""
        return any(self._is_pulling(reader) for reader in self._graph.readers(name))

    def _is_pulling(self, name: str) -> bool:
        trigger = self._with.declared.tables[name].schedule.trigger
        if trigger is Trigger.DOWNSTREAM:
            return self._is_wanted(name)
        return trigger is not Trigger.MANUAL and is_due(self._facts(name))

    def _waits(self, facts: Facts, verdict: Verdict) -> None:
        """Note that the gate is closed: told when it is news, counted when there was something to refresh."""
        name, desk = facts.spec.name, self._desks[facts.spec.name]
        self.waiting.add(name)
        newest_there = tuple((one.name, one.newest.version) for one in facts.inputs if one.newest is not None)
        if desk.waited_on == (verdict.reason, newest_there):
            return
        is_news = desk.waited_on is None or desk.waited_on[0] != verdict.reason
        desk.waited_on = (verdict.reason, newest_there)
        now_us = self._now_us()
        row = Row(
            happening=Happening.WAITED,
            at_us=now_us,
            until_us=now_us,
            reason=verdict.reason,
            code=verdict.code,
            blocked_by=verdict.blocked_by,
        )
        kept_from = contents.kept_from(facts)
        self._note(facts, lambda known: replace(known, kept_from={**kept_from, **known.kept_from}).told(row))
        if is_news:
            said = {"table": name, "reason": verdict.reason, "blocked_by": list(verdict.blocked_by)}
            self._with.tell("table_waits", said)

    # refreshing

    def _refresh(
        self,
        facts: Facts,
        verdict: Verdict,
        lease: Lease,
        *,
        happening: Happening = Happening.REFRESHED,
        full: bool = False,
    ) -> Refreshed:
        name, began_us = facts.spec.name, self._now_us()
        reading = contents.versions_of(verdict)
        self._tidied(name, lease)
        self._note(facts, lambda document: replace(document, reading=reading, token=lease.token), lease)
        try:
            how = How.FULL if full or not self._is_unchanged(facts, verdict) else How.UNCHANGED
            version = self._published(facts, verdict, lease, how)
        except (errors.RefreshFailed, errors.LakeUnavailable, errors.LakeError) as failed:
            if not isinstance(failed, errors.LakeConflict):
                self._failed(facts, failed, lease)
            raise
        made = version.metadata
        assert made is not None
        row = Row(
            happening=happening,
            at_us=began_us,
            until_us=self._now_us(),
            version=version.version,
            rows=made.rows,
            how=how.value,
            took_us=self._now_us() - began_us,
        )
        self._note(facts, lambda document: _shown(document, reading).told(row), lease)
        self._clean(name, lease)
        desk = self._desks.get(name)
        if desk is not None:
            desk.rest = None
        self.failed.discard(name)
        done = Refreshed(table=name, version=version.version, how=how, rows=made.rows or 0)
        said = {"table": name, "mode": how.value, "version": done.version, "rows": done.rows}
        self._with.tell("table_refreshed", said)
        return done

    def _published(self, facts: Facts, verdict: Verdict, lease: Lease, how: How) -> Version:
        """The new contents and what is claimed of them, in one commit."""
        table = self._with.lake(facts.spec.name)
        self._check_owner(facts)
        if how is How.UNCHANGED and facts.metadata is not None:
            made = Made(rows=facts.metadata.rows or 0, schema_fp=facts.metadata.schema_fp or "")
            said = contents.metadata_of(facts, verdict, token=lease.token, how=how, made=made)
            return table.commit(said, onto=facts.own)
        staged = self._staged(facts, verdict, lease)
        made = Made(rows=staged.rows, schema_fp=schemas.fingerprint(staged.schema))
        said = contents.metadata_of(facts, verdict, token=lease.token, how=how, made=made)
        # The lease may have been lost while Spark computed; the log would refuse it too.
        lease.check()
        new = schemas.new_shape(staged.schema, (), created_us=self._now_us())
        if facts.own is None:
            return table.create(new, said, added=staged.files)
        known, removed = table.shape(facts.own.version), table.files(facts.own.version)
        shape = new if known is None else replace(known, schema_json=staged.schema)
        changed = None if shape == known else shape
        return table.commit(said, added=staged.files, removed=removed, shape=changed, onto=facts.own)

    def _staged(self, facts: Facts, verdict: Verdict, lease: Lease) -> Staged:
        from tidegate.tables import compute  # noqa: PLC0415 -- Spark, which a run of closed gates does not need

        name = facts.spec.name
        with self._with.spark.job(name, f"refresh-{name}-{lease.token}"):
            if self._session is None:
                self._session = self._with.spark.aside()
            return compute.stage(facts.spec, facts.node, verdict.cut, self._with.lake, self._session, lease.token)

    def _is_unchanged(self, facts: Facts, verdict: Verdict) -> bool:
        """Whether no input has other rows than those that the contents were made from."""
        cut = contents.versions_of(verdict)
        if facts.metadata is None or facts.is_redefined or not contents.is_same_place(facts.frontier, cut):
            return False
        return not any(self._moved(table, facts.frontier[table], version) for table, version in cut.items())

    def _moved(self, name: str, after: int, to: int) -> bool:
        table = self._with.lake(name)
        try:
            return contents.rows_moved(table.entry(number) for number in range(after + 1, to + 1))
        except errors.LakeUnavailable:
            raise
        except errors.LakeError:
            return True  # the owner of an external table cleans its log: nobody can tell any more

    def _check_owner(self, facts: Facts) -> None:
        if facts.metadata is not None and facts.metadata.owner != facts.spec.name:
            what = f"it belongs to {facts.metadata.owner}, and cannot become a table too"
            raise errors.NotOurs(table=facts.spec.name, what=what)

    def _failed(self, facts: Facts, failed: errors.TidegateError, lease: Lease) -> None:
        now_us = self._now_us()
        row = Row(happening=Happening.FAILED, at_us=now_us, until_us=now_us, reason=failed.message, code=failed.code)
        gone: dict[str, int] = {}
        if isinstance(failed, errors.InputGone):
            gone = {str(failed.fields["input"]): int(str(failed.fields["version"]))}
        self._note(
            facts,
            lambda document: replace(document, reading={}, gone={**document.gone, **gone}).told(row),
            lease,
        )

    # what is remembered

    def _note(self, facts: Facts, change: Callable[[TableDocument], TableDocument], lease: Lease | None = None) -> None:
        """Change the table's document: under the lease where there is one, else against whoever else tells."""
        store, name = self._with.store, facts.spec.name
        for _ in range(_TRIES):
            found = store.get(documents.state_key(name))
            known = TableDocument(table=name) if found is None else TableDocument.from_body(found.body)
            body = change(_planned(known, facts)).to_body()
            expect = None if found is None else found.version
            put = Put(
                key=documents.state_key(name), body=body, expect=expect, token=0 if lease is None else lease.token
            )
            try:
                store.transaction([put]) if lease is None else lease.transaction([put])
            except errors.VersionConflict:
                continue
            return
        raise errors.LedgerError(what=f"{documents.state_key(name)} is being written all the time by somebody else")

    # tidying

    def _tidied(self, name: str, lease: Lease) -> None:
        """Once a run: mend what a power cut tore, and sweep what dead attempts left."""
        desk = self._desks.setdefault(name, _Desk())
        if desk.is_tidy:
            return
        table = self._with.lake(name)
        table.repair()
        if table.exists:
            table.sweep((), below_token=lease.token, older_than_us=self._now_us() - SWEEP_AFTER_US)
        desk.is_tidy = True

    def _clean(self, name: str, lease: Lease) -> None:
        """Delete the files of replaced versions that nobody needs any more."""
        known = documents.read_all(self._with.store)
        document = known.get(name)
        if document is None:
            return
        table: LakeTable = self._with.lake(name)
        found = contents.superseded(
            table.removals(),
            readable_from=document.readable_from,
            needed_from=documents.needed_from(known.values(), name),
            before_us=self._now_us() - DELAY_US,
        )
        if found.readable_from > document.readable_from:
            # The mark first: nobody may be sent to a version whose files are about to go.
            facts = self._facts(name)
            self._note(facts, lambda known: replace(known, readable_from=found.readable_from), lease)
            table.delete_files(found.paths)

    # small things

    @contextmanager
    def _leased(self, name: str) -> Iterator[Lease]:
        lost: list[Exception] = []
        waiting = _Waiting(name, self._with.tell)
        lease = leases.acquire(self._with.store, documents.lease_key(name), name=name, waiting=waiting)
        with Keeper(lambda _, error: lost.append(error), self._with.clock) as keeper:
            keeper.add(lease)
            try:
                yield lease
            finally:
                keeper.drop(lease)
                lease.release()
        if lost:
            raise lost[0]

    def _now_us(self) -> int:
        return to_micros(self._with.clock.now())


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Says whom a lease is waited for."""

    name: str
    tell: Tell

    def __call__(self, view: leases.LeaseView) -> None:
        self.tell("waiting_for_lease", {"name": self.name, "owner": view.owner})


def _shown(document: TableDocument, frontier: Mapping[str, int]) -> TableDocument:
    """The document once readers see contents that were made from these versions."""
    return replace(document, frontier=frontier, reading={}, kept_from={}, gone={})


def _planned(document: TableDocument, facts: Facts) -> TableDocument:
    """The document with what its query reads, so that nobody needs to parse it to tell."""
    node, spec = facts.node, facts.spec
    frontier = facts.frontier or document.frontier
    return replace(
        document,
        definition=spec.definition,
        references=node.references,
        mode=node.mode.value,
        needs_all=node.mode is Mode.HOLD_BACK,
        frontier=dict(frontier),
    )
