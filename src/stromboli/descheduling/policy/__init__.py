"""The policy file: which plugins run, with which arguments, and when.

file          the file's format
schedule      when runs are due
thresholds    percentages by resource
"""

from .policy_file import Limits, Policy, Profile, load_policy
from .schedule import Schedule
from .thresholds import gpu_names, resources_of, thresholds

__all__ = ["Limits", "Policy", "Profile", "Schedule", "gpu_names", "load_policy", "resources_of", "thresholds"]
