"""Tabular average-reward learning, many seeds at once.

`learn` has Differential Q-learning, RVI Q-learning, R-learning and CSV-learning (`METHODS`);
`predict` is differential TD.
"""

from longrun.exact.tabular.learning.methods import (
    METHODS,
    LearningCurves,
    Method,
    Prediction,
    learn,
    predict,
)

__all__ = ["METHODS", "LearningCurves", "Method", "Prediction", "learn", "predict"]
