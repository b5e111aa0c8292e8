"""The options that every command takes, before its name and after it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Final, get_type_hints

import typer

from tidegate.cli.output import Shell

_PANEL: Final = "Everywhere"
_CONTEXT: Final = "context"


def _flag(*names: str, help: str) -> Any:
    return Annotated[bool, typer.Option(*names, help=help, rich_help_panel=_PANEL, show_default=False)]


OPTIONS: Final[dict[str, tuple[Any, object]]] = {
    "project": (
        Annotated[
            str | None,
            typer.Option(
                "--project",
                metavar="DIR",
                help="The project's folder; without it the nearest one upward that has a tidegate.yml.",
                rich_help_panel=_PANEL,
                show_default=False,
            ),
        ],
        None,
    ),
    "as_json": (_flag("--json", help="One JSON document on standard output."), False),
    "quiet": (_flag("--quiet", "-q", help="Only data and errors."), False),
    "verbose": (_flag("--verbose", "-v", help="More of what is going on."), False),
    "no_color": (_flag("--no-color", help="No colors."), False),
    "debug": (_flag("--debug", help="Errors with their traceback."), False),
}


def merged(shell: Shell | None, given: dict[str, Any]) -> Shell:
    """The shell with what was given added; an option that was not given changes nothing."""
    return replace(shell or Shell(), **{name: value for name, value in given.items() if value})


def everywhere(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command of Typer from a function that takes the `Shell` first, and `context` last if it wants it."""
    signature = inspect.signature(function)
    hints = get_type_hints(function, include_extras=True)
    own = [p.replace(annotation=hints[p.name]) for p in list(signature.parameters.values())[1:]]
    wants_context = any(p.name == _CONTEXT for p in own)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=keyword) for p in own if p.name != _CONTEXT]
    parameters.append(inspect.Parameter(_CONTEXT, keyword, annotation=typer.Context))
    parameters += [inspect.Parameter(n, keyword, annotation=a, default=d) for n, (a, d) in OPTIONS.items()]

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        context = given[_CONTEXT] if wants_context else given.pop(_CONTEXT)
        shell = merged(context.obj, {name: given.pop(name) for name in OPTIONS})
        context.obj = shell
        return function(shell, **given)

    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # read by inspect
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def unburdened(command: Any) -> None:
    """Let the parameters of a command, and of those below it, take text without what Typer loads to convert it.

    Typer 0.29 hands every value to pydantic, which takes longer to load than all of `tidegate status`,
    and whose complaints do not show what was typed. Where Typer does it in another way, this does nothing.
    """
    for param in getattr(command, "params", ()):
        _unburden(param)
    find_help = getattr(command, "get_help_option", None)
    if find_help is not None:
        # `--help` is no parameter of a command: it is made when a command line is looked at.
        command.get_help_option = lambda context: _unburden(find_help(context))
    for below in getattr(command, "commands", {}).values():
        unburdened(below)


def _unburden(param: Any) -> Any:
    convert = getattr(param, "get_runtime_param", None)
    if convert is not None and not isinstance(convert, functools.partial):
        param.get_runtime_param = functools.partial(_Text, convert)
    return param


class _Text:
    """Converts nothing where there is nothing to convert, and leaves the rest to Typer."""

    def __init__(self, convert: Callable[[], Any]) -> None:
        self._convert = convert

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_one = not param.multiple and param.nargs == 1
        is_text = isinstance(value, str) and param.type_descriptor.annotation is str
        if is_one and (value is None or is_text):
            return value
        try:
            return self._convert().coerce(value, param=param, ctx=ctx)
        except typer.BadParameter as wrong:
            wrong.message = f"{value!r}: {wrong.message}"
            raise
