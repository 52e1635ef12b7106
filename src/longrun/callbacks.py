"""Callbacks for `learn(on_log=...)`: plain functions of a `Progress`, one or a list of them."""

from longrun.learning.callbacks import *  # noqa: F403
from longrun.learning.callbacks import __all__ as __all__
