"""The plan of a fit, by an estimator's parameters and the sizes of the data."""

from __future__ import annotations

from bigcat.auto.candidates import config_for_stream, config_for_update, plan_for, plan_for_rounds
from bigcat.auto.parameters import Parameters

__all__ = ["Parameters", "config_for_stream", "config_for_update", "plan_for", "plan_for_rounds"]
