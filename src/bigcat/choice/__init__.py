"""Discrete choice: conditional logit and probit, from three alternatives to 100,000."""

from bigcat.choice.model import ChoiceModel

__all__ = ["ChoiceModel"]
