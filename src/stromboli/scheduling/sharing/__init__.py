"""Dividing what there is: by weight, exactly, and with what was promised at admission in the books."""

from .admission_promises import AdmissionPromises
from .division import Claim, divide
from .ratio import Ratio, RatioKey, ratio_key

__all__ = ["AdmissionPromises", "Claim", "Ratio", "RatioKey", "divide", "ratio_key"]
