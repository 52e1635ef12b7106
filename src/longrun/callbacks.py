"""Callbacks for `learn(on_log=...)`: plain functions of a `Progress`, one or a list of them.

A callback that returns False stops the training. Those below are made by functions, which are given
the agent where they save or name something. A callback of your own is any function; with
`on_evaluation` it is called where there is an evaluation.
"""

from longrun.learning.callbacks import *  # noqa: F403
from longrun.learning.callbacks import __all__ as __all__
