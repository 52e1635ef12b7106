"""The list of kept mutants fits the code and the tests; `make test-mutants` applies them."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from mutants import MUTANTS
from mutation_run import ROOT, mutated, run_tests

TESTS = Path(__file__).parent


def test_texts_of_mutants_occur_exactly_once() -> None:
    wrong = []
    for mutant in MUTANTS:
        file = ROOT / "src" / "longrun" / mutant.file
        count = file.read_text().count(mutant.old) if file.exists() else 0
        if count != 1:
            wrong.append(f"{mutant.name}: its text occurs {count} times in {mutant.file}")
    assert not wrong, "change or remove these mutants:\n" + "\n".join(wrong)


def test_mutants_differ_are_python_and_have_fast_tests() -> None:
    changes = [(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS]
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(changes)) == len(set(names)) == len(MUTANTS)
    functions: dict[str, set[str]] = {}
    wrong = []
    for mutant in MUTANTS:
        text = (ROOT / "src" / "longrun" / mutant.file).read_text()
        ast.parse(text.replace(mutant.old, mutant.new))
        for test in mutant.tests:
            file, _, name = test.partition("::")
            if file not in functions:
                tree = ast.parse((TESTS / file).read_text())
                functions[file] = {x.name for x in tree.body if isinstance(x, ast.FunctionDef)}
            if name and name not in functions[file]:
                wrong.append(f"{mutant.name}: there is no test {test}")
    assert not wrong, "\n".join(wrong)


def test_a_mutant_is_applied_to_a_copy(tmp_path: Path) -> None:
    mutant = next(m for m in MUTANTS if m.file == "learning/learn/advantages.py")
    file = Path("longrun", mutant.file)
    (tmp_path / file).parent.mkdir(parents=True)
    shutil.copy(ROOT / "src" / file, tmp_path / file)
    mutated(mutant, tmp_path)
    assert mutant.new in (tmp_path / file).read_text()
    with pytest.raises(ValueError, match=r"occurs 0 times in learning/learn/advantages\.py"):
        mutated(mutant, tmp_path)


def test_a_test_that_cannot_be_run_notices_nothing() -> None:
    found = run_tests(ROOT / "src", ["no_such_file.py"])
    assert not found.caught_by and "could not be run" in found.problem
