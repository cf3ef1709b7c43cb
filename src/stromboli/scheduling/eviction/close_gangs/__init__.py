"""Room for groups that must be close together: in one domain, and sub-group by sub-group."""

from .cheapest_domain import NO_EVICTIONS, Cost, cheapest_domain
from .sub_group_promises import SubGroupPromises

__all__ = ["NO_EVICTIONS", "Cost", "SubGroupPromises", "cheapest_domain"]
