"""Arguments of the algorithms: for type checkers, editors and `help`."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from longrun.learning.algorithms import AGENTS
from longrun.learning.options import arguments
from longrun.learning.options.config import ALGORITHMS
from longrun.learning.options.config_options import make_config, value_text

ROOT = Path(__file__).parents[1]
WIDER = {
    "hidden_sizes": (8,),
    "value_hidden_sizes": (8,),
    "policy_network": "mlp",
    "value_network": "mlp",
    "limits": {"terminated": 1.0},
    "costs": ("fuel",),
}
"""Options that take more types than a field holds, with a value for each."""
each_algorithm: Any = pytest.mark.parametrize("name", ALGORITHMS)


@each_algorithm
def test_the_types_of_the_arguments_are_those_of_the_fields(name: str) -> None:
    kind = ALGORITHMS[name]
    given = get_type_hints(getattr(arguments, f"{name.upper()}Arguments"))
    own = set(get_type_hints(arguments.AgentArguments))
    fields = {field.name for field in dataclasses.fields(kind)}
    assert set(given) - own == fields
    held = get_type_hints(kind)
    assert {n for n in fields if given[n] != held[n]} == set(WIDER)
    make_config(name, **WIDER)
    init = inspect.signature(AGENTS[name].__mro__[1].__init__).parameters
    assert own == {n for n, p in init.items() if p.kind is p.KEYWORD_ONLY}


@each_algorithm
def test_signature_and_help_have_every_option_with_its_default(name: str) -> None:
    agent, config = AGENTS[name], make_config(name)
    parameters, text = inspect.signature(agent).parameters, inspect.getdoc(agent)
    words = " ".join((text or "").split())
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        assert parameters[field.name].default == value
        assert f"{field.name} : {field.type}, default {value_text(value)}" in words
        assert " ".join(field.metadata["help"].split()) in words
    assert parameters["seed"].default == 0 and "others" not in parameters


def test_a_type_checker_knows_every_option() -> None:
    """It accepts and refuses what it should: an `ignore` that is not needed is an error."""
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml"]
    done = subprocess.run(
        [*command, "tests/typed_options.py"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
