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
    "checkpoints": (checkpoints, (checkpoints_list,)),
}
