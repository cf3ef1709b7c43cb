"""Names in Volcano's configuration files that mean nothing by themselves here, with what to do about each.

A file written for Volcano should load, and do what it says. Where something else does the same here, the name stands
for it, or is left out, with a warning that says what to use. Where nothing does, the file is refused: the cluster would
follow other rules than its file says. Arguments that only choose how Volcano does something are named, and ignored.

A distribution may provide a plugin or an action of such a name; then nothing here is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Kind = Literal["action", "plugin"]


class Otherwise(NamedTuple):
    """Who does it here."""

    name: str  # of the action that runs instead; "" if it is left out
    advice: str


_DESCHEDULER: Final = (
    "the descheduler moves pods here; run it beside the scheduler, with a policy (`stromboli descheduler --config`), "
)

DONE_OTHERWISE: Final[Mapping[tuple[Kind, str], Otherwise]] = {
    ("action", "elect"): Otherwise("", "reserve finds out itself for which jobs to reserve nodes; leave elect out"),
    ("action", "gangpreempt"): Otherwise("preempt", "preempt does this here, and runs instead; write preempt"),
    ("action", "gangreclaim"): Otherwise("reclaim", "reclaim does this here, and runs instead; write reclaim"),
    ("action", "shuffle"): Otherwise("", f"{_DESCHEDULER}and leave shuffle out"),
    ("plugin", "rescheduling"): Otherwise("", f"{_DESCHEDULER}and leave rescheduling out"),
}

NOT_BUILT: Final[Mapping[tuple[Kind, str], str]] = {
    ("plugin", "cdp"): "pods cannot be protected from eviction for a time after their start",
    ("plugin", "deviceshare"): "devices are not shared among pods; request whole ones, as nvidia.com/gpu",
    ("plugin", "extender"): "no other program is asked during a cycle; write a plugin instead (docs/plugins.md)",
    ("plugin", "numa-aware"): "nodes are not divided into NUMA nodes",
    ("plugin", "tdm"): "nodes cannot be lent by the time of the day",
}

_CACHED: Final = "what failed is always remembered"
_VICTIMS: Final = "evictions are always tried on all nodes, and see what pods on other nodes mean for a place"
_CLAIMS: Final = "pods with resource claims do not start"

WITHOUT_EFFECT: Final[Mapping[tuple[Kind, str], Mapping[str, str]]] = {
    ("action", "allocate"): {"predicateErrorCacheEnable": _CACHED},
    ("action", "backfill"): {"predicateErrorCacheEnable": _CACHED},
    ("action", "preempt"): {
        "predicateErrorCacheEnable": _CACHED,
        "enableTopologyAwarePreemption": _VICTIMS,
        "topologyAwarePreemptWorkerNum": _VICTIMS,
        "minCandidateNodesPercentage": _VICTIMS,
        "minCandidateNodesAbsolute": _VICTIMS,
        "maxCandidateNodesAbsolute": _VICTIMS,
        "maxDomains": "all domains are considered",
        "allowWholeBundle": "gangs are evicted whole where that is needed",
    },
    ("action", "reclaim"): {
        "predicateErrorCacheEnable": _CACHED,
        "maxDomains": "all domains are considered",
        "allowWholeBundle": "gangs are evicted whole where that is needed",
    },
    ("plugin", "capacity"): {
        "capacity.DynamicResourceAllocationEnable": _CLAIMS,
        "capacity.DRAConsumableCapacityEnable": _CLAIMS,
    },
    ("plugin", "network-topology-aware"): {
        "hypernode.gradient.evict.max-hypernodes": "how many domains are looked at before pods are evicted is fixed",
    },
    ("plugin", "predicates"): {
        "predicate.CacheEnable": "results are always cached",
        "predicate.DynamicResourceAllocationEnable": _CLAIMS,
        "predicate.GPUNumberEnable": "request whole devices, as nvidia.com/gpu",
        "predicate.GPUSharingEnable": "devices are not shared among pods",
        "dynamicresources.filterTimeoutSeconds": _CLAIMS,
        "volumebinding.bindTimeoutSeconds": "write predicate.VolumeBindingTimeout",
        "volumebinding.shape": "nodes are not scored by the capacity of volumes",
        "volumebinding.weight": "nodes are not scored by the capacity of volumes",
    },
}

FLAGS_WITHOUT_EFFECT: Final = frozenset({
    "clusterOrder", "hyperNodeGradient", "hyperNodeOrder", "reservedNodes", "subJobOrder", "subJobPipelined",
    "subJobReady", "targetJob",
})  # fmt: skip
