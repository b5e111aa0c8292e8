"""Every command: parse, call `Service`, render."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidegate import errors
from tidegate.cli.output import Shell
from tidegate.pipelines.documents import Wanted
from tidegate.service import Service
from tidegate.views.values import as_json

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A table, pipeline, source or group; `source:orders` is exact.")
]
Pipeline = Annotated[str, typer.Argument(metavar="PIPELINE", help="The name of a pipeline.")]


def _service(shell: Shell) -> Service:
    return Service.open(shell.project)


# making and running


def init(
    shell: Shell, folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is new or empty.")]
) -> None:
    """Write a project that runs as it is."""
    from tidegate.project.starter import write_starter

    written = write_starter(folder)
    next_steps = f"  cd {folder}\n  tidegate run --once\n  tidegate status"
    shell.done(
        f"{folder} has a project of {len(written)} files; next:\n{next_steps}",
        project=str(folder),
        files=[str(path) for path in written],
    )


def demo(shell: Shell) -> int:
    """Make a project in a temporary folder, run it, and tell what there is to see."""
    from tidegate.cli.demo import narrate

    return narrate(shell)


def run(
    shell: Shell,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these pipelines and tables.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Everything that is there now, then exit.")] = False,
) -> int:
    """Run pipelines and refresh tables, until told to stop."""
    from tidegate.cli.running import run_with_progress

    return run_with_progress(shell, _service(shell), names or [], once=once)


def refresh(
    shell: Shell,
    name: Annotated[str, typer.Argument(metavar="TABLE", help="The name of a table.")],
    force: Annotated[bool, typer.Option("--force", help="Also when the table waits for a source.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Compute all of it again.")] = False,
) -> None:
    """Refresh one table now, if its verdict allows it."""
    with _service(shell) as service:
        table = service.refresh(name, force=force, full=full)
    shell.done(
        f"{name} is at version {table.version}, complete to {_text(table.effective_watermark)}", **as_json(table)
    )


# looking


def status(
    shell: Shell,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every second.")] = False,
) -> None:
    """Show where everything stands, worst first."""
    from tidegate.cli import show

    with _service(shell) as service:
        if watch:
            show.watch(shell, service.status)
        elif shell.as_json:
            shell.document(as_json(service.status()))
        else:
            shell.show(*show.status(service.status(), verbose=shell.verbose))


def explain(shell: Shell, name: Name) -> None:
    """Tell why something stands where it stands, who is in the way, and what would move it."""
    from tidegate.cli import show

    with _service(shell) as service:
        told = service.explain(name)
    shell.document(told.to_json()) if shell.as_json else shell.show(*show.explanation(told))


def tables(shell: Shell) -> None:
    """List the tables with their verdicts."""
    from tidegate.cli import show

    with _service(shell) as service:
        found = service.tables()
    if shell.as_json:
        shell.document(as_json(list(found.values())))
    else:
        shell.show(*show.tables(found.values(), verbose=shell.verbose))


def groups(shell: Shell, context: typer.Context) -> None:
    """List the groups of sources, and whether they agree."""
    if context.invoked_subcommand is None:
        groups_list(shell)


def groups_list(shell: Shell) -> None:
    """List the groups of sources, and whether they agree."""
    from tidegate.cli import show

    with _service(shell) as service:
        found = service.groups()
    if shell.as_json:
        shell.document(as_json(list(found.values())))
    else:
        shell.show(*show.groups(found.values()))


def checkpoints(shell: Shell, context: typer.Context) -> None:
    """Show the checkpoints of a pipeline."""
    if context.invoked_subcommand is None:
        raise errors.ConfigError(
            where="tidegate checkpoints", what="say what to do", hint="tidegate checkpoints list PIPELINE"
        )


def checkpoints_list(shell: Shell, pipeline: Pipeline) -> None:
    """List the checkpoints of a pipeline, as ranges that stand alike."""
    from tidegate.cli import show

    with _service(shell) as service:
        found = service.checkpoints(pipeline)
    if shell.as_json:
        shell.document(as_json(found))
    else:
        shell.show(*show.checkpoints(pipeline, found))


def checkpoints_show(
    shell: Shell,
    pipeline: Pipeline,
    version: Annotated[int | None, typer.Option("--version", metavar="V", help="That version of it.")] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="As it was then; a time with its zone.")
    ] = None,
    versions: Annotated[bool, typer.Option("--versions", help="List the versions that are kept.")] = False,
) -> None:
    """Show the document that holds a pipeline's progress."""
    from tidegate.cli import show

    with _service(shell) as service:
        if versions:
            kept = service.versions(pipeline)
            shell.document(as_json(list(kept))) if shell.as_json else shell.show(*show.versions(pipeline, kept))
            return
        number, document = service.document(pipeline, version=version, at=at)
    shell.document({"version": number, "document": document})


def checkpoints_diff(
    shell: Shell,
    pipeline: Pipeline,
    before: Annotated[int, typer.Argument(metavar="BEFORE", help="A version of the pipeline's document.")],
    after: Annotated[int | None, typer.Argument(metavar="[AFTER]", help="A later one; without it the newest.")] = None,
) -> None:
    """Tell what changed in a pipeline's document between two versions."""
    from tidegate.cli import show

    with _service(shell) as service:
        found = service.differences(pipeline, before, after)
    shell.document(as_json(list(found))) if shell.as_json else shell.show(*show.differences(found))


def checkpoints_pin(
    shell: Shell,
    pipeline: Pipeline,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="A version of the pipeline's document.")],
    release: Annotated[bool, typer.Option("--release", help="Let it go again.")] = False,
) -> None:
    """Keep a version of a pipeline's document until it is released."""
    with _service(shell) as service:
        service.pin(pipeline, version, release=release)
    told = "is kept no longer than others" if release else "is kept until it is released"
    shell.done(f"version {version} of {pipeline} {told}", pipeline=pipeline, version=version, pinned=not release)


def checkpoints_rollback(
    shell: Shell,
    pipeline: Pipeline,
    to: Annotated[
        int | None, typer.Option("--to", metavar="N", help="The checkpoint that is then the last one.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")] = False,
) -> None:
    """Tell what rolling a pipeline back would do; doing it is of a later version."""
    if to is None or not dry_run:
        from tidegate.cli.app import NotBuilt

        raise NotBuilt(command="checkpoints rollback without --to N --dry-run")
    with _service(shell) as service:
        plan = service.rollback_plan(pipeline, to)
    shell.document(plan.to_json()) if shell.as_json else shell.show("\n".join(plan.lines))


# the ledger


def ledger(shell: Shell, context: typer.Context) -> None:
    """Check, export, import and copy the ledger."""
    if context.invoked_subcommand is None:
        raise errors.ConfigError(where="tidegate ledger", what="say what to do", hint="tidegate ledger check")


def ledger_check(
    shell: Shell,
    recover: Annotated[
        bool, typer.Option("--recover", help="Go on from the newest good version where the newest is damaged.")
    ] = False,
) -> int:
    """Read every version of every document, and tell which cannot be read."""
    from tidegate.cli import show

    with _service(shell) as service:
        checked, recovered = service.check_ledger(recover=recover)
    if shell.as_json:
        told = [{"key": key, "taken_from": taken, "version": made} for key, taken, made in recovered]
        shell.document({**as_json(checked), "recovered": told})
    else:
        shell.show(*show.checked(checked, recovered))
    saved = {key for key, _, _ in recovered}
    return 1 if any(one.is_head and one.key not in saved for one in checked.findings) else 0


def ledger_export(
    shell: Shell, file: Annotated[str, typer.Argument(metavar="FILE", help="A file that is new; - is standard output.")]
) -> None:
    """Write every document with its versions to a file."""
    import sys

    with _service(shell) as service:
        if file == "-":
            service.export_ledger(sys.stdout)
            return
        try:
            with open(file, "x", encoding="utf-8") as out:
                copied = service.export_ledger(out)
        except OSError as error:
            raise errors.ConfigError(where=file, what=str(error.strerror), hint="name a file that is new") from None
    shell.done(f"{file} has {_copied(copied)}", file=file, **as_json(copied))


def ledger_import(
    shell: Shell, file: Annotated[str, typer.Argument(metavar="FILE", help="An export; - is standard input.")]
) -> None:
    """Take an export into the project's ledger, which must be empty."""
    import sys

    with _service(shell) as service:
        if file == "-":
            copied = service.import_ledger(sys.stdin)
        else:
            try:
                with open(file, encoding="utf-8") as given:
                    copied = service.import_ledger(given)
            except (OSError, UnicodeDecodeError) as error:
                raise errors.ConfigError(where=file, what=str(error)) from None
    shell.done(f"the ledger has taken in {_copied(copied)}", **as_json(copied))


def ledger_copy(
    shell: Shell, to: Annotated[str, typer.Argument(metavar="URL", help="A ledger that is empty.")]
) -> None:
    """Take every document with its versions over to another ledger, while nothing runs."""
    with _service(shell) as service:
        copied = service.copy_ledger(to)
    shell.done(f"the copy has {_copied(copied)}; name it in `ledger:` of tidegate.yml to use it", **as_json(copied))


def _copied(copied: Any) -> str:
    return f"{copied.documents:,} documents in {copied.versions:,} versions"


def read(
    shell: Shell,
    name: Name,
    *,
    as_of: Annotated[
        int | None, typer.Option("--as-of", metavar="N", help="A checkpoint of a pipeline, or a version of a table.")
    ] = None,
    complete_to: Annotated[
        str | None, typer.Option("--complete-to", metavar="W", help="Fail with exit code 3 unless it is complete to W.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=0, help="At most so many rows.")] = None,
    format: Annotated[
        str | None, typer.Option("--format", metavar="table|json|csv", help="How to print the rows.")
    ] = None,
) -> None:
    """Print the complete rows of a pipeline's output or a table."""
    from tidegate.cli import rows

    wanted = rows.chosen(format, as_json=shell.as_json)
    with _service(shell) as service:
        reading = service.read(name, as_of=as_of, complete_to=complete_to, limit=rows.limit_of(wanted, limit))
    for remark in reading.remarks:
        shell.note(remark)
    rows.write(shell, reading, wanted, asked_limit=limit)


def wait(
    shell: Shell,
    name: Name,
    until: Annotated[str, typer.Option("--until", metavar="W", help="A time with its zone, or a whole number.")],
    timeout: Annotated[str, typer.Option("--timeout", help="How long to wait.")] = "10m",
) -> None:
    """Wait until something is complete to W; exit code 3 when the time is up."""
    with _service(shell) as service:
        reached = service.wait(name, until, timeout=timeout)
    shell.done(f"{name} is complete to {_text(reached)}", name=name, watermark=as_json(reached))


# moving


def advance(
    shell: Shell,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The name of a source.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="A time with its zone, or a whole number.")],
    part: Annotated[str | None, typer.Option("--part", metavar="P", help="The part that has come so far.")] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="The version of an external table that it speaks of.")
    ] = None,
) -> None:
    """Say that a source is complete through VALUE."""
    with _service(shell) as service:
        found = service.advance(source, value, part=part, version=version)
    pending = f"; {found.pending.text} takes effect once its rows are published" if found.pending else ""
    shell.done(f"{source} is complete through {_text(found.watermark)}{pending}", **as_json(found))


def pause(shell: Shell, pipeline: Pipeline) -> None:
    """Let a pipeline finish what is in flight, and plan nothing new."""
    _control(shell, pipeline, Wanted.PAUSE, "is asked to pause; tidegate resume lets it go on")


def resume(shell: Shell, pipeline: Pipeline) -> None:
    """Let a paused or stopped pipeline go on."""
    _control(shell, pipeline, Wanted.RUN, "may run again")


def stop(shell: Shell, pipeline: Pipeline) -> None:
    """Let a pipeline finish what is in flight and end; it stays stopped until it is resumed."""
    _control(shell, pipeline, Wanted.STOP, "is asked to stop; tidegate resume lets it run again")


def _control(shell: Shell, pipeline: str, wanted: Wanted, told: str) -> None:
    with _service(shell) as service:
        state = service.control(pipeline, wanted)
    shell.done(f"{pipeline} {told}", pipeline=pipeline, wanted=wanted.value, state=state.value)


def prune(
    shell: Shell,
    name: Annotated[str | None, typer.Argument(metavar="[PIPELINE]", help="Only this pipeline.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")] = False,
) -> None:
    """Take the retention's reader step now, and delete what is due."""
    from tidegate.cli import show

    with _service(shell) as service:
        reports = service.prune(name, dry_run=dry_run)
    if shell.as_json:
        shell.document(as_json(list(reports)))
    else:
        shell.show(*show.pruned(reports, dry_run=dry_run))


def _text(value: Any) -> str:
    return "nothing yet" if value is None else value.text


COMMANDS: Final[tuple[Callable[..., Any], ...]] = (
    init, demo, run, status, explain, read, advance, tables, refresh, pause, resume, stop, prune, wait,
)  # fmt: skip
GROUPS: Final[dict[str, tuple[Callable[..., Any], tuple[Callable[..., Any], ...]]]] = {
    "groups": (groups, (groups_list,)),
    "checkpoints": (
        checkpoints,
        (checkpoints_list, checkpoints_show, checkpoints_diff, checkpoints_pin, checkpoints_rollback),
    ),
    "ledger": (ledger, (ledger_check, ledger_export, ledger_import, ledger_copy)),
}
