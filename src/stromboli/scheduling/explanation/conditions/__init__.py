"""The types of the conditions of a PodGroup that say whether it could be scheduled; Reservations have the second."""

UNSCHEDULABLE = "Unschedulable"
SCHEDULED = "Scheduled"
