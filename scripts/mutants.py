"""Breaks the exact core one comparison, bound or sign at a time, and tells which break no test notices.

    make mutants                              all of src/tidegate/progress
    python scripts/mutants.py cut groups      these modules only; --minutes 10 stops in time

First every test of tests/unit/progress runs once, and the lines that it reaches are remembered. Then each mutant
is tried in a process forked from one that has collected them all: it puts the broken function in place of the whole
one and runs the tests that reach the line, the quickest first, until one fails. What a module says outside of its
functions is broken before it is loaded, and tried on all tests. A test that takes many times its time has noticed.

What was found is kept in build/mutants.json for as long as neither the module nor a test changes, so a run goes on
where the last one stopped. A survivor ends the run with 1, unless tests/mutants.txt argues why no test can tell it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import hashlib
import importlib.abc
import importlib.util
import inspect
import json
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "src" / "tidegate" / "progress"
TESTS = ROOT / "tests" / "unit" / "progress"
ARGUED = ROOT / "tests" / "mutants.txt"
FOUND = ROOT / "build" / "mutants.json"
REACHED = ROOT / "build" / "mutants-reached.json"
#: What a test, and all tests together, may take of a processor before they count as endless.
PATIENCE_S, PATIENCE, PATIENCE_FOR_ALL_S = 2.0, 5.0, 90.0
MOST_MEMORY = 4 << 30

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
    is_inside: bool  # of a function, and so can be put into a module that is loaded


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    seen: Counter[str] = Counter()
    for at, (node, where, is_inside) in enumerate(_nodes(tree)):
        for number in range(len(_changes(node))):
            broken = copy.deepcopy(tree)
            target = next(n for i, (n, *_) in enumerate(_nodes(broken)) if i == at)
            before = ast.unparse(target)
            _changes(target)[number]()
            key = f"{path.stem}.{where}: {before} -> {ast.unparse(target)}"
            seen[key] += 1
            if seen[key] > 1:
                key += f" #{seen[key]}"
            source = ast.unparse(broken)
            yield Mutant(module=path.stem, key=key, line=node.lineno, source=source, is_inside=is_inside)


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str, bool]]:
    """All nodes that are run, each with the name of what it is in, and whether that is the body of a function."""
    stack: list[tuple[ast.AST, str, bool]] = [(tree, "", False)]
    while stack:
        node, where, is_inside = stack.pop()
        if isinstance(node, ast.expr | ast.stmt):
            yield node, where or "module", is_inside
        inner = where
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = f"{where}.{node.name}" if where else node.name
        body = node.body if isinstance(node, ast.FunctionDef) else []
        stack += [(child, inner, is_inside or child in body) for child in reversed(list(_children(node)))]


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


def in_order(module: str) -> list[str]:
    """All files of tests, those of the module first."""
    names = [f"test_{name}.py" for name in NEAREST.get(module, (module,))]
    paths = [path for path in sorted(TESTS.glob("test_*.py")) if path.name not in BLIND]
    return [str(path) for path in sorted(paths, key=lambda path: path.name not in names)]


def fork(work: Callable[[], bool]) -> int:
    """Do the work in a process of its own, which ends with 0 where it is true."""
    pid = os.fork()
    if pid:
        return pid
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    code = 1
    try:
        code = 0 if work() else 1
    finally:
        os._exit(code)


def patient(seconds: float) -> None:
    """End this process once it has used so much more of a processor."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def survives_loading(mutant: Mutant) -> bool:
    """Whether no test notices a module that is broken from the start. None may be loaded yet."""
    patient(PATIENCE_FOR_ALL_S)
    sys.meta_path.insert(0, _Broken(mutant))
    return pytest.main([*OPTIONS, "-x", *in_order(mutant.module)]) == pytest.ExitCode.OK


OPTIONS = ("-c", os.devnull, "--rootdir", str(ROOT), "-p", "no:cacheprovider")


@dataclass
class Reach:
    """The lines of the core that each test reaches, and how long it takes of a processor."""

    stamp: str
    lines: dict[str, list[str]] = field(default_factory=dict)  # module:line -> tests
    seconds: dict[str, float] = field(default_factory=dict)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Those that reach the line, the quickest first."""
        return sorted(self.lines.get(f"{mutant.module}:{mutant.line}", ()), key=self.seconds.__getitem__)


class Trials:
    """A plugin of pytest: instead of running the tests that were collected, it tries mutants on them."""

    def __init__(self, stamp: str, trial: Callable[[Callable[[Mutant], bool]], None]) -> None:
        self._stamp = stamp
        self._trial = trial

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Learn what the tests reach where that is not known, and let the mutants be tried."""
        self._session = session
        self._items = {item.nodeid: item for item in session.items}
        if state() != self._stamp:
            print("the core or its tests have changed meanwhile: run it again", flush=True)
            return True
        if _reach(self._stamp) is None:
            print("the tests run once, to learn what they reach", flush=True)
            _, status = os.waitpid(fork(self._learn), 0)
            if status != 0:
                print("a test fails as it is, or while the lines that it reaches are noted", flush=True)
                return True
        reach = _reach(self._stamp)
        assert reach is not None, "it was learned"
        self._reach = reach
        self._functions = _functions()
        gc.freeze()
        self._trial(self._survives)
        return True

    def _survives(self, mutant: Mutant) -> bool:
        for code in _codes(compile(mutant.source, f"<{mutant.key}>", "exec")):
            for function in self._functions.get((mutant.module, code.co_qualname), ()):
                function.__code__ = code
        names = self._reach.tests_of(mutant)
        for name, following in zip(names, [*names[1:], None], strict=True):
            patient(PATIENCE_S + PATIENCE * self._reach.seconds[name])
            if not self._passes(name, following):
                return False
        return True

    def _passes(self, name: str, following: str | None) -> bool:
        item = self._items[name]
        nextitem = None if following is None else self._items[following]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        return self._session.testsfailed == 0

    def _learn(self) -> bool:
        lines: dict[str, list[str]] = defaultdict(list)
        seconds: dict[str, float] = {}
        names = list(self._items)
        for name, following in zip(names, [*names[1:], None], strict=True):
            began, reached = time.process_time(), set[str]()
            sys.settrace(_tracer(reached))
            passes = self._passes(name, following)
            sys.settrace(None)
            if not passes:
                return False
            seconds[name] = time.process_time() - began
            for line in reached:
                lines[line].append(name)
        REACHED.parent.mkdir(exist_ok=True)
        REACHED.write_text(json.dumps({"stamp": self._stamp, "lines": lines, "seconds": seconds}))
        return True


def _reach(stamp: str) -> Reach | None:
    found = json.loads(REACHED.read_text()) if REACHED.exists() else {"stamp": None}
    return Reach(**found) if found["stamp"] == stamp else None


def _tracer(reached: set[str]) -> Callable[[FrameType, str, Any], Any]:
    modules = {str(path): path.stem for path in CORE.glob("*.py")}

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        reached.add(f"{modules[frame.f_code.co_filename]}:{frame.f_lineno}")
        return line

    def call(frame: FrameType, event: str, arg: Any) -> Any:
        return line(frame, event, arg) if frame.f_code.co_filename in modules else None

    return call


def _functions() -> dict[tuple[str, str], list[FunctionType]]:
    """The functions of the core that live, by module and name; of a class made twice, both."""
    found: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
    files = {str(path): path.stem for path in CORE.glob("*.py")}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename in files:
            found[files[one.__code__.co_filename], one.__code__.co_qualname].append(one)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of every function that is made when a module is loaded."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            if not one.co_flags & inspect.CO_NEWLOCALS:  # the body of a class
                yield from _codes(one)


def judge(
    waiting: list[Mutant],
    survives: Callable[[Mutant], bool],
    *,
    jobs: int,
    until: float,
    tell: Callable[[Mutant, bool], None],
) -> None:
    """Try the mutants, several at once; `tell` gets each with whether it survived."""
    running: dict[int, Mutant] = {}
    while running or (waiting and time.monotonic() < until):
        while waiting and len(running) < jobs and time.monotonic() < until:
            mutant = waiting.pop(0)
            running[fork(partial(survives, mutant))] = mutant
        pid, status = os.waitpid(-1, 0)
        tell(running.pop(pid), status == 0)


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


def state() -> str:
    """The core and its tests, as they are now."""
    return f"{digest(CORE.glob('*.py'))}-{digest(TESTS.glob('*.py'))}"


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
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    os.environ |= {"TIDEGATE_EXAMPLES": "mutants", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def tell(mutant: Mutant, survived: bool) -> None:
        verdicts[mutant.key] = survived
        known[mutant.key] = [stamps[mutant.module], survived]
        FOUND.parent.mkdir(exist_ok=True)
        FOUND.write_text(json.dumps(known, indent=0))
        if survived:
            print(f"survived  {mutant.key}  ({mutant.module}.py:{mutant.line})", flush=True)

    until = time.monotonic() + chosen.minutes * 60
    began = state()
    trial = partial(judge, jobs=chosen.jobs, until=until, tell=tell)
    trial([mutant for mutant in waiting if not mutant.is_inside], survives_loading)
    inside = [mutant for mutant in waiting if mutant.is_inside]
    if inside and time.monotonic() < until:
        pytest.main([*OPTIONS, "-p", "no:terminal", *in_order("")], plugins=[Trials(began, partial(trial, inside))])
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
