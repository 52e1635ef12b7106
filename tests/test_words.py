"""Docstrings can be read alone: none begins as if the name before it were part of the sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "longrun"
TAIL = re.compile(
    r"\s*(about|above|after|and|as|at|because|before|below|besides?|between|but|by|for|from|if|in|"
    r"instead|into|is|its|like|may|of|on|or|since|so|than|that|their|these|they|those|through|to|"
    r"under|until|up|while|whose|with|within|without)[\s,]",
    re.IGNORECASE,
)
"""First words of the tails of sentences, as "Of a busy worker." is without its class's name.
`like: shapes of the state` explains an argument."""


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Docstrings of modules, classes, functions and, below them, of names."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            match statement:
                case ast.Expr(ast.Constant(str()) as text):
                    yield text


def test_tails_are_found() -> None:
    tree = ast.parse('WIDTH = 7\n"""Of a line."""\ndef f(): "like: a shape."; "As given"; x = "of"')
    texts = [str(text.value) for text in docstrings(tree)]
    assert texts == ["Of a line.", "like: a shape.", "As given"]
    assert [bool(TAIL.match(text)) for text in texts] == [True, False, True]


def test_no_docstring_is_the_tail_of_a_sentence() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    found = {
        f"{file.relative_to(SOURCE)}:{text.lineno}: {str(text.value).splitlines()[0]}"
        for file in files
        for text in docstrings(ast.parse(file.read_text()))
        if TAIL.match(str(text.value))
    }
    assert len(files) > 100
    assert not found, "\n".join(sorted(found))
