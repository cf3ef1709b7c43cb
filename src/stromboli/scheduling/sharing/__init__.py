"""Dividing resources: by weight, with exact shares, and with the promises made at admission taken into account; and who
may reclaim what from whom."""

from .admission_promises import AdmissionPromises
from .admission_refusals import no_room_to_admit
from .division import Claim, divide
from .entitlement import over_deserved
from .job_amounts import pending_request, tentatively_gone
from .leaving_pods import LeavingPods
from .ratio import Ratio, RatioKey, ratio_key
from .reclaim_rule import ReclaimRule

__all__ = [
    "AdmissionPromises",
    "Claim",
    "LeavingPods",
    "Ratio",
    "RatioKey",
    "ReclaimRule",
    "divide",
    "no_room_to_admit",
    "over_deserved",
    "pending_request",
    "ratio_key",
    "tentatively_gone",
]
