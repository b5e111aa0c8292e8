"""The Python files of a project: what they say is read without running them, and they run late.

`tidegate status` must not wait for a file that imports PySpark. So a file is parsed, and run only
when one of its functions is called; it is then the text that was parsed that runs, so that a
fingerprint always tells which code made the rows.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tidegate.project.problems import Problems
from tidegate.quick import dataclass

Function = Callable[..., Any]

#: Where the Python files of a project are.
FOLDERS: Final = ("pipelines", "tables")

_modules: dict[tuple[str, str], ModuleType] = {}
_running = threading.RLock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A Python file of the project. `file` is relative to `root`, with /."""

    root: Path
    file: str
    text: str
    tree: ast.Module = field(compare=False, repr=False)

    @property
    def fingerprint(self) -> str:
        """Changes when the text does."""
        return hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest()

    @property
    def functions(self) -> Mapping[str, int]:
        """What can be called by name in the file, and the lines: functions, and names that are assigned or imported."""
        return dict(_names(self.tree.body))


def read(root: Path, file: str, problems: Problems) -> Script | None:
    """The file, parsed; None when it cannot be, and `problems` has why."""
    try:
        text = (root / file).read_text(encoding="utf-8")
        return Script(root=root, file=file, text=text, tree=ast.parse(text, filename=file))
    except SyntaxError as wrong:
        problems.add(wrong.lineno, f"this is not Python: {wrong.msg}")
    except UnicodeDecodeError:
        problems.add(None, "this is not text in UTF-8")
    except OSError as failed:
        problems.add(None, f"cannot be read: {failed.strerror}")
    return None


def function(script: Script, name: str) -> Function:
    """The function of that name; runs the file, once in a process."""
    found: Function = getattr(run(script), name)
    return found


def run(script: Script, *, afresh: bool = False) -> ModuleType:
    """The module that the file makes, run once in a process for each text of it, or `afresh`."""
    key = (str(script.root / script.file), script.fingerprint)
    with _running:
        module = None if afresh else _modules.get(key)
        if module is None:
            module = _modules[key] = _executed(script)
    _send_by_value(module, script.root)
    return module


def _executed(script: Script) -> ModuleType:
    digest = hashlib.blake2b(f"{script.root}/{script.file}\n{script.fingerprint}".encode(), digest_size=6).hexdigest()
    module = ModuleType(f"tidegate_project_{digest}_{Path(script.file).stem}")
    module.__file__ = str(script.root / script.file)
    sys.modules[module.__name__] = module  # dataclasses and pickle look there
    try:
        with _importing_from(script.root):
            exec(compile(script.text, module.__file__, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


@contextmanager
def _importing_from(root: Path) -> Iterator[None]:
    """Let the files of a project import each other: `from pipelines.shared import f`."""
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))


def _send_by_value(module: ModuleType, root: Path) -> None:
    """Have functions of the project's files travel to Spark's workers whole: no worker can import them."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import cloudpickle  # noqa: PLC0415  only once the project's own code has loaded PySpark

    for other in [module, *sys.modules.values()]:
        if other is module or _is_of_project(getattr(other, "__file__", None), root):
            cloudpickle.register_pickle_by_value(other)  # type: ignore[no-untyped-call]  # PySpark's copy has no types


def _is_of_project(file: str | None, root: Path) -> bool:
    if not file or not Path(file).is_relative_to(root):
        return False
    first, *deeper = Path(file).relative_to(root).parts
    return not deeper or first in FOLDERS  # an environment inside the project is not the project


def _names(body: Iterable[ast.stmt]) -> Iterator[tuple[str, int]]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.Assign(targets=targets):
                yield from ((target.id, node.lineno) for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node.lineno
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from ((alias.asname or alias.name, node.lineno) for alias in aliases)
            case ast.If() | ast.For() | ast.While() | ast.Try() | ast.With():
                yield from _names(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))
            case _:
                pass
