"""Configurations of the `paper` preset, for tests of the paper's formulas."""

from __future__ import annotations

from typing import Any

from longrun.learning.options.config import Config
from longrun.learning.options.config_options import make_config


def paper_config(algorithm: str, preset: str = "paper", **options: Any) -> Config:
    """As `make_config`, whose own default preset normalises, scales and decays."""
    return make_config(algorithm, preset, **options)
