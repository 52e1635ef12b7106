"""Learning methods on tabular models that the paper builds on, vmapped over seeds."""

from longrun.tabular.learning.methods import LearningCurves, Method, Prediction, learn, predict

__all__ = ["LearningCurves", "Method", "Prediction", "learn", "predict"]
