"""Dividing resources: by weight, with exact shares, and with the promises made at admission taken into account."""

from .admission_promises import AdmissionPromises
from .division import Claim, divide
from .pending_request import pending_request
from .ratio import Ratio, RatioKey, ratio_key

__all__ = ["AdmissionPromises", "Claim", "Ratio", "RatioKey", "divide", "pending_request", "ratio_key"]
