"""The page of guarantees names tests, and they are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
NAMED = re.compile(r"^\| (\w+) \| `([\w/.]+\.py)::([\w:]+)` \|$", re.MULTILINE)
KINDS = {"law", "contract", "whole", "crash"}


@cache
def names_in(path: str) -> frozenset[str]:
    """What can be run in a file: `test_this`, `TestThat`, `TestThat::test_this`."""
    found: set[str] = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        match node:
            case ast.FunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                found |= {name} | {f"{name}::{one.name}" for one in body if isinstance(one, ast.FunctionDef)}
            case ast.Assign(targets=[ast.Name(id=name)]):  # `TestMachine = Machine.TestCase`
                found.add(name)
    return frozenset(name for name in found if "test" in name.rpartition("::")[2].lower())


def test_there_are_nine_promises_in_order() -> None:
    """Each with its number, a sentence and a table."""
    assert [section.split(".")[0] for section in SECTIONS] == [str(number) for number in range(1, 10)]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.splitlines()[0])
def test_every_promise_is_held_by_tests_that_are_there(section: str) -> None:
    """A law or contract that decides, and something that runs the whole."""
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| kind")]
    named = NAMED.findall(section)
    assert len(named) == len(rows), "a row that is not `| kind | path::name |`"
    missing = [f"{path}::{name}" for _, path, name in named if name not in names_in(path)]
    assert missing == []
    kinds = {kind for kind, _, _ in named}
    assert kinds <= KINDS
    assert kinds & {"law", "contract"}
    assert kinds & {"whole", "crash"}


def test_a_name_that_is_not_there_is_found() -> None:
    """The check above can fail."""
    assert "test_that_nobody_wrote" not in names_in("tests/unit/docs/test_guarantees.py")
    assert "test_a_name_that_is_not_there_is_found" in names_in("tests/unit/docs/test_guarantees.py")
