"""The command line as a whole: its commands, its errors, its exit codes."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from tidegate import errors
from tidegate.cli import commands, output
from tidegate.cli.options import everywhere, unburdened
from tidegate.cli.output import Shell

#: In the contract, and not built yet: absent from the help, and told in one line.
NOT_BUILT: Final = {
    "": ("plan", "serve", "doctor", "dlq"),
    "groups": ("create", "alter", "drop"),
    "checkpoints": ("skip",),
    "ledger": ("install-sql",),
}
INTERRUPTED: Final = 130
_COMMANDS: Final = {command.__name__.rstrip("_"): command for command in commands.COMMANDS}
# Typer's own UsageError, which it does not export: the base of every complaint about a command line.
_UsageError: Final[Any] = typer.BadParameter.__mro__[1]


class Commands(TyperGroup):
    """A group of commands that knows the ones which are still to come."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0] if args else ""
        place = "" if ctx.parent is None else str(ctx.info_name)
        if name in NOT_BUILT.get(place, ()):
            raise NotBuilt(command=f"{place} {name}".strip())
        if name not in self.commands:
            raise UnknownCommand(command=f"{place} {name}".strip(), near=_near(name, list(self.commands), place))
        return super().resolve_command(ctx, args)


class Misused(errors.ConfigError):
    """The command line cannot be understood."""

    code = "TG-C003"
    text = "{what}"


class UnknownCommand(Misused):
    """There is no such command."""

    text = "there is no command {command}{near}"
    advice = "tidegate --help lists all commands"


class NotBuilt(Misused):
    """The command is part of the design, and of a later version."""

    code = "TG-C004"
    text = "tidegate {command} is not in this version of Tidegate yet"


def _near(name: str, names: list[str], place: str) -> str:
    from tidegate.project.problems import did_you_mean

    return did_you_mean(name, [f"{place} {one}".strip() for one in names])


def _group(name: str, help: str) -> typer.Typer:
    return typer.Typer(name=name, cls=Commands, help=help, invoke_without_command=True)


def _version(wanted: bool) -> None:
    if wanted:
        from tidegate import __version__

        sys.stdout.write(f"tidegate {__version__}\n")
        raise typer.Exit


_Version = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.", show_default=False)
]


def _start(shell: Shell, version: _Version = False) -> None:
    """Data pipelines on Spark that always know how complete their data is."""


def build(only: str | None = None) -> Any:
    """The application with all commands, or that one, as what carries out a command line."""
    app = typer.Typer(
        name="tidegate",
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": output.WIDTH},
    )
    app.callback()(everywhere(_start))
    for name, command in _COMMANDS.items():
        if only in (None, name):
            app.command(name)(everywhere(command))
    for name, (default, others) in commands.GROUPS.items():
        if only not in (None, name):
            continue
        group = _group(name, default.__doc__ or "")
        group.callback()(everywhere(default))
        for command in others:
            group.command(command.__name__.rpartition("_")[2])(everywhere(command))
        app.add_typer(group)
    built = typer.main.get_command(app)
    unburdened(built)
    _flags_have_no_type(built)
    return built


def _typed(argv: list[str]) -> str | None:
    """The command in the line, if it is one: the others need not be built to carry it out."""
    words = iter(argv)
    for word in words:
        if word == "--project":
            next(words, None)
        elif not word.startswith("-"):
            return word if word in _COMMANDS or word in commands.GROUPS else None
    return None


def _flags_have_no_type(command: Any) -> None:
    """Typer 0.29 writes `<bool>` behind each flag; people know that a flag is there or not."""
    find_help = command.get_help_option

    def untyped_help(context: Any) -> Any:
        option = find_help(context)
        option.metavar = ""
        return option

    command.get_help_option = untyped_help
    for param in command.params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    for below in getattr(command, "commands", {}).values():
        _flags_have_no_type(below)


def run(argv: list[str]) -> int:
    """Carry out a command line and give its exit code."""
    as_json, debug, no_color = ("--json" in argv), ("--debug" in argv), ("--no-color" in argv)
    try:
        code = build(_typed(argv))(args=argv, prog_name="tidegate", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _close_quietly()
        return 0
    except Exception as exc:  # the edge: whatever it is, people get a line and an exit code
        if isinstance(exc, _UsageError) and not exc.format_message():
            return Misused.exit_code  # nothing was asked: the help is printed already
        if debug:
            raise
        error = _told(exc)
        output.report(error, as_json=as_json, no_color=no_color)
        return error.exit_code
    return code if isinstance(code, int) else 0


def _told(exc: Exception) -> errors.TidegateError:
    if isinstance(exc, errors.TidegateError):
        return exc
    if isinstance(exc, _UsageError):
        return Misused(what=_one_line(exc.format_message()), hint=_usage_hint(exc))
    what = f"{type(exc).__name__}: {_one_line(str(exc))}"
    return Unexpected(what=what)


class Unexpected(errors.TidegateError):
    """Nobody thought of this."""

    text = "unexpected {what}"
    advice = "run it again with --debug to see where, and please report it"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _usage_hint(exc: Any) -> str:
    context = getattr(exc, "ctx", None)
    return f"{context.command_path} --help tells what it takes" if context is not None else "see tidegate --help"


def _close_quietly() -> None:
    # The reader of our output went away; Python would complain once more while it exits.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
