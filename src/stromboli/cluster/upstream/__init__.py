"""Groups of `scheduling.k8s.io` among the jobs of the scheduler.

Such a group has no queue of its own, its pods must agree with it, and several of them may form one job. `group_index`
finds that out, `agreement` says what is wrong with a group, and `trees` divides composite groups into jobs.
"""

from .group_index import RefusedGroup, UpstreamIndex

__all__ = ["RefusedGroup", "UpstreamIndex"]
