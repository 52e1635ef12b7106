"""Builders of environments and models that have the parameters of a network's description."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from longrun.exact.queueing.network import Network

Built = TypeVar("Built")


def derived_builder(
    describe: Callable[..., Network],
    make: Callable[..., Built],
    note: str = "",
    **added: tuple[type, Any],
) -> Callable[..., Built]:
    """A function with the parameters of `describe` and the `added` ones (type, default).

    It calls make(network, arguments), where `arguments` holds the values of all parameters. The
    signature and the docstring, to which `note` is added, are what help texts are made from.
    """
    more = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind
        )
        for name, (kind, default) in added.items()
    ]
    own = inspect.signature(describe, eval_str=True)
    parameters = [*own.parameters.values(), *more]
    signature = own.replace(parameters=parameters, return_annotation=inspect.Signature.empty)

    def build(*args: Any, **keywords: Any) -> Built:
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        return make(describe(**{key: arguments[key] for key in own.parameters}), arguments)

    build.__name__ = build.__qualname__ = describe.__name__
    build.__doc__ = "\n\n".join(filter(None, [inspect.getdoc(describe), note]))
    build.__annotations__ = {key: p.annotation for key, p in signature.parameters.items()}
    build.__signature__ = signature  # type: ignore[attr-defined]
    return build
