"""Observes a culprit again, in trials: the stage, the place, the smallest sizes that show it."""
