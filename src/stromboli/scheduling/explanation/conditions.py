"""The types of the conditions of a PodGroup that say whether it could be scheduled."""

UNSCHEDULABLE = "Unschedulable"
SCHEDULED = "Scheduled"
