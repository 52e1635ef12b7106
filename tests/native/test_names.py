"""Environment strings: splitting, joining, and errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longrun.learning.envs.env_strings import join_env, parse_args, split_env, with_args

examples = settings(max_examples=100, deadline=None, derandomize=True, database=None)
ids = st.text(min_size=1).filter(lambda text: "?" not in text)
keys = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]*", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)


@examples
@given(ids, st.dictionaries(keys, values, max_size=4))
def test_joined_strings_split_into_the_same_parts(env_id: str, args: dict[str, Any]) -> None:
    found_id, found = split_env(join_env(env_id, args))
    assert (found_id, found) == (env_id, args)
    assert [type(value) for value in found.values()] == [type(value) for value in args.values()]
    assert list(found) == list(args)


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("brax:ant", {}),
        ("brax:ant?backend=spring", {"backend": "spring"}),
        ("brax:ant?backend=spring&time_limit=200", {"backend": "spring", "time_limit": 200}),
        ('brax:ant?limit="200"', {"limit": "200"}),
        ("brax:ant?flag=true&none=null&rate=0.5", {"flag": True, "none": None, "rate": 0.5}),
        ("brax:ant?rates=[1,2.5]", {"rates": [1, 2.5]}),
        ("brax:ant?reward_config.scale=2", {"reward_config.scale": 2}),
        ("brax:ant?text=a=b?c", {"text": "a=b?c"}),
        ("brax:ant?text=", {"text": ""}),
    ],
)
def test_strings_and_their_arguments(text: str, args: dict[str, Any]) -> None:
    assert split_env(text) == ("brax:ant", args)
    assert join_env("brax:ant", args) == text


def test_ampersands_in_values_are_not_separators() -> None:
    text = join_env("a", {"text": "b&c", "more": ["&"]})
    assert text == r'a?text="b\u0026c"&more=["\u0026"]'
    assert split_env(text) == ("a", {"text": "b&c", "more": ["&"]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a?b", "'b'; write 'id"),
        ("a?", "''; write 'id"),
        ("a?b=1&", "''; write 'id"),
        ("a?=1", "'=1'; write 'id"),
        ("a?b c=1", "'b c=1'; write 'id"),
        ("a?b=1&b=2", "'b' twice"),
        ("?b=1", "no id"),
    ],
)
def test_malformed_strings_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        split_env(text)


def test_values_that_cannot_be_written_as_text_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be written as text"):
        join_env("a", {"b": object()})
    with pytest.raises(ValueError, match=r"without '\?'"):
        join_env("a?b", {})
    with pytest.raises(ValueError, match="argument 'b='"):
        join_env("a", {"b=": 1})


def test_arguments_are_added_only_to_strings() -> None:
    assert with_args("a?b=1&c=2", {"c": 3, "d": "e"}) == "a?b=1&c=3&d=e"
    assert with_args("a", {}) == "a"
    assert with_args(unnamed := object(), {}) is unnamed
    with pytest.raises(ValueError, match="named by a string"):
        with_args(object(), {"b": 1})


def test_arguments_of_the_command_line() -> None:
    assert parse_args(["regime=BM", "servers=2"]) == {"regime": "BM", "servers": 2}
    assert parse_args([]) == {}
    for wrong in ("regime", "a=1&b=2"):
        with pytest.raises(ValueError, match=f"--env-args '{wrong}' must look like"):
            parse_args([wrong])
