"""Breaks the exact core one comparison, bound or sign at a time, and tells which break no test notices.

    make mutants                              all of src/tidegate/progress
    python scripts/mutants.py cut groups      these modules only; --minutes 10 stops in time

Each mutant is tried in a process forked from one that has loaded the libraries, first on the tests of its module,
then on all of tests/unit/progress. What was found is kept in build/mutants.json for as long as neither the
module nor a test changes, so a run goes on where the last one stopped. A survivor ends the run with 1, unless
tests/mutants.txt argues why no test can tell it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import importlib.abc
import importlib.util
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
CORE = ROOT / "src" / "tidegate" / "progress"
TESTS = ROOT / "tests" / "unit" / "progress"
ARGUED = ROOT / "tests" / "mutants.txt"
FOUND = ROOT / "build" / "mutants.json"
PATIENCE_S = 90.0

#: Tests that are asked first, where they are not `test_<module>.py`.
NEAREST = {"partition_state": ("event_time", "partitions"), "retention": ("retention", "scenarios_sui")}
#: Tests that only load modules in other processes, which no mutant reaches.
BLIND = {"test_light.py"}

COMPARED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SIGNED: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
BOUNDING = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
}


@dataclass(frozen=True)
class Mutant:
    """One broken module. The key names it without a line number, so that an argument outlives an edit above it."""

    module: str
    key: str
    line: int
    source: str


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    seen: Counter[str] = Counter()
    for at, (node, where) in enumerate(_nodes(tree)):
        for number in range(len(_changes(node))):
            broken = copy.deepcopy(tree)
            target = next(n for i, (n, _) in enumerate(_nodes(broken)) if i == at)
            before = ast.unparse(target)
            _changes(target)[number]()
            key = f"{path.stem}.{where}: {before} -> {ast.unparse(target)}"
            seen[key] += 1
            if seen[key] > 1:
                key += f" #{seen[key]}"
            yield Mutant(module=path.stem, key=key, line=node.lineno, source=ast.unparse(broken))


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """All nodes that are run, each with the name of what it is in."""
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, where = stack.pop()
        if isinstance(node, ast.expr | ast.stmt):
            yield node, where or "module"
        inner = where
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = f"{where}.{node.name}" if where else node.name
        stack += [(child, inner) for child in reversed(list(_children(node)))]


def _children(node: ast.AST) -> Iterable[ast.AST]:
    """What is below a node, but annotations, decorators and the text of errors."""
    if isinstance(node, ast.JoinedStr):
        return ()
    if isinstance(node, ast.FunctionDef):
        return [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None), *node.body]
    if isinstance(node, ast.ClassDef):
        return node.body
    if isinstance(node, ast.AnnAssign):
        return [] if node.value is None else [node.value]
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return node.orelse
    return ast.iter_child_nodes(node)


def _changes(node: ast.AST) -> list[Callable[[], None]]:
    """What can be broken in one node, in place."""
    match node:
        case ast.Compare(ops=ops):
            return [_setting(ops, at, COMPARED[type(op)]()) for at, op in enumerate(ops)]
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in SIGNED:
            return [lambda: setattr(node, "op", SIGNED[type(op)]())]
        case ast.BoolOp(op=op):
            return [lambda: setattr(node, "op", ast.Or() if isinstance(op, ast.And) else ast.And())]
        case ast.UnaryOp(op=ast.USub() | ast.Invert(), operand=operand) if not isinstance(operand, ast.Constant):
            return [lambda: setattr(node, "op", ast.UAdd())]
        case ast.UnaryOp(op=ast.Not()):
            return [lambda: setattr(node, "operand", ast.UnaryOp(op=ast.Not(), operand=node.operand))]
        case ast.Constant(value=bool() as value):
            return [lambda: setattr(node, "value", not value)]
        case ast.Constant(value=int() as value):
            return [lambda: setattr(node, "value", value + 1)]
        case ast.Call(func=ast.Name(id=name) as func) if name in BOUNDING:
            return [lambda: setattr(func, "id", BOUNDING[name])]
        case _:
            return []


def _setting(ops: list[ast.cmpop], at: int, op: ast.cmpop) -> Callable[[], None]:
    return lambda: ops.__setitem__(at, op)


class _Broken(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a mutant's source."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = f"tidegate.progress.{mutant.module}"

    def find_spec(self, fullname: str, path: object, target: object = None) -> object:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._mutant.source, f"<{self._mutant.key}>", "exec"), module.__dict__)


def nearest(module: str) -> list[str]:
    """The tests that are asked first."""
    names = NEAREST.get(module, (module,))
    return [str(path) for name in names if (path := TESTS / f"test_{name}.py").exists()]


def others(module: str) -> list[str]:
    """All the rest."""
    first = nearest(module)
    return [str(p) for p in sorted(TESTS.glob("test_*.py")) if str(p) not in first and p.name not in BLIND]


def start(mutant: Mutant, tests: Sequence[str]) -> int:
    """Run the tests on the mutant in a process of its own; its exit code is 0 where they noticed nothing."""
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    sys.meta_path.insert(0, _Broken(mutant))
    os.environ |= {"TIDEGATE_EXAMPLES": "mutants", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    try:
        import pytest  # noqa: PLC0415 - loaded by the parent

        code = int(
            pytest.main(["-c", os.devnull, "--rootdir", str(ROOT), "-x", "-q", "-p", "no:cacheprovider", *tests])
        )
    except BaseException:  # noqa: BLE001 - a module that cannot even be loaded was noticed
        code = 1
    os._exit(0 if code == 0 else 1)


@dataclass
class Running:
    """A mutant that is being tried."""

    mutant: Mutant
    left: list[list[str]]
    began: float


def judge(waiting: list[Mutant], *, jobs: int, until: float, tell: Callable[[Mutant, bool], None]) -> None:
    """Try the mutants, several at once; `tell` gets each with whether it survived."""
    running: dict[int, Running] = {}
    while running or (waiting and time.monotonic() < until):
        while waiting and len(running) < jobs and time.monotonic() < until:
            mutant = waiting.pop(0)
            stages = [tests for tests in (nearest(mutant.module), others(mutant.module)) if tests]
            running[start(mutant, stages[0])] = Running(mutant, stages[1:], time.monotonic())
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            _end_the_patient(running)
            time.sleep(0.01)
            continue
        one = running.pop(pid)
        noticed = status != 0
        if not noticed and one.left:
            running[start(one.mutant, one.left[0])] = Running(one.mutant, one.left[1:], time.monotonic())
        else:
            tell(one.mutant, not noticed)


def _end_the_patient(running: Mapping[int, Running]) -> None:
    """A test that never ends has noticed too."""
    for pid, one in running.items():
        if time.monotonic() - one.began > PATIENCE_S:
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def argued() -> dict[str, str]:
    """The survivors that no test can tell, each with why: `key  # why`, one a line."""
    lines = ARGUED.read_text(encoding="utf-8").splitlines() if ARGUED.exists() else []
    pairs = [line.rpartition("  # ") for line in lines if "  # " in line and not line.startswith("#")]
    return {key.strip(): why.strip() for key, _, why in pairs}


def digest(paths: Iterable[Path]) -> str:
    """What the files say."""
    whole = hashlib.sha256()
    for path in sorted(paths):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


def main(arguments: Sequence[str]) -> int:
    """Try the mutants that were not yet, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="of src/tidegate/progress; all by default")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--list", action="store_true", help="only name the mutants")
    chosen = parser.parse_args(arguments)
    paths = [path for path in sorted(CORE.glob("[a-z]*.py")) if not chosen.modules or path.stem in chosen.modules]
    everything = [mutant for path in paths for mutant in mutants(path)]
    if chosen.list:
        print(*(mutant.key for mutant in everything), sep="\n")
        return 0
    tests = digest(TESTS.glob("*.py"))
    stamps = {path.stem: f"{digest([path])}-{tests}" for path in paths}
    known = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    # Whoever was noticed by a test is noticed by more of them too.
    verdicts = {
        m.key: known[m.key][1]
        for m in everything
        if m.key in known
        and (
            known[m.key][0] == stamps[m.module]
            or (not known[m.key][1] and known[m.key][0][:16] == stamps[m.module][:16])
        )
    }
    waiting = [mutant for mutant in everything if mutant.key not in verdicts]
    print(f"{len(everything)} mutants, {len(waiting)} to try", flush=True)
    _load()

    def tell(mutant: Mutant, survived: bool) -> None:
        verdicts[mutant.key] = survived
        known[mutant.key] = [stamps[mutant.module], survived]
        FOUND.parent.mkdir(exist_ok=True)
        FOUND.write_text(json.dumps(known, indent=0))
        if survived:
            print(f"survived  {mutant.key}  ({mutant.module}.py:{mutant.line})", flush=True)

    judge(waiting, jobs=chosen.jobs, until=time.monotonic() + chosen.minutes * 60, tell=tell)
    return report(everything, verdicts, argued())


def report(everything: Sequence[Mutant], verdicts: Mapping[str, bool], why: Mapping[str, str]) -> int:
    """Say what survived, and whether that is argued."""
    untried = [m for m in everything if m.key not in verdicts]
    alive = [m for m in everything if verdicts.get(m.key)]
    bare = [m for m in alive if m.key not in why]
    stale = sorted(key for key in why if key in verdicts and not verdicts[key])
    for mutant in bare:
        print(f"nobody noticed  {mutant.key}  ({mutant.module}.py:{mutant.line})")
    for key in stale:
        print(f"argued, but noticed by a test now  {key}")
    noticed = len(everything) - len(untried) - len(alive)
    print(
        f"{noticed} noticed, {len(alive) - len(bare)} argued in {ARGUED.relative_to(ROOT)}, "
        f"{len(bare)} survived, {len(untried)} not tried"
    )
    return 1 if bare or untried else 0


def _load() -> None:
    """What every mutant needs and none breaks."""
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    for name in (
        "hypothesis.strategies",
        "hypothesis.stateful",
        "numpy",
        "pytest",
        "tidegate.errors",
        "tidegate.clock",
    ):
        importlib.import_module(name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
