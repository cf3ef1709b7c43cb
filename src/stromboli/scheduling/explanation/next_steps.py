"""What a person can do about each reason.

Sentences say what is missing; some also say what to do, where they have the numbers for it. These are the steps without
numbers, one for each code, for whoever asks about a single job. They name the fields that its user wrote: a Job, a
PodGroup of Volcano and one of Kubernetes have different ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from stromboli.api.kinds.workloads import CompositePodGroup
from stromboli.api.upstream import written_type

from .error_reasons import says_error_of_plugin
from .gang_reasons import QUEUE_GATE
from .reasons import Code, says_guaranteed, says_never, says_that_pods_are_created

_STEPS = {
    Code.QUEUE_CLOSED: "Open the queue, or submit the job to another one.",
    Code.QUEUE_NOT_LEAF: "Submit the job to one of the queue's children.",
    Code.QUEUE_OVER_QUOTA: "Wait until jobs of the queue finish, or raise its capability.",
    Code.QUEUE_OVER_DESERVED: "Wait until other queues need less, or raise the weight of the queue.",
    Code.NAMESPACE_SHARE_AHEAD: "Wait for your turn, or raise the weight of the namespace.",
    Code.NAMESPACE_OVER_QUOTA: "Wait until pods of the namespace finish, or raise its ResourceQuota.",
    Code.NOT_ENOUGH_PODS: "Create the missing pods, or lower the minimum.",
    Code.INSUFFICIENT_NODE: "Request less, wait until pods finish, or add nodes.",
    Code.NODE_RESOURCE_RESERVED: "Wait until the job that the nodes are reserved for has started.",
    Code.NODE_LOCKED_BY_QUEUE: "Use the queue that the nodes are locked for, or lower its guarantee.",
    Code.RESERVATION_LIMIT_EXCEEDED: "Raise reservedNodePercent of the action reserve.",
    Code.WAITING_FOR_RELEASE: "Nothing: it starts when the terminating pods are gone.",
    Code.CONDITIONALLY_READY: "Nothing: it starts when the pods on lent resources are gone.",
    Code.STARVING_RESERVED: "Nothing: its nodes are reserved, and it starts when the pods there finish.",
    Code.GANG_SHORT: "Lower {minimum}, request less for each pod, or wait until pods finish.",
    Code.DOMAIN_SHORT: "Request less, allow a higher tier, or wait until pods in one domain finish.",
    Code.NO_DOMAIN: "Create HyperNodes or label nodes, or correct the tier that the group names.",
    Code.SUB_GROUP_SHORT: "Lower {sub_groups}, request less for each pod, or wait until pods finish.",
    Code.NOT_ENOUGH_SUB_GROUPS: "Create the missing pods with the labels of the policy, or lower {sub_groups}.",
    Code.SUB_GROUP_UNCLEAR: "Change the labels of the pod, or the policies of its group.",
    Code.SCHEDULING_GATED: "Have the owner of the scheduling gates remove them.",
    Code.QUEUE_FIRST_IN_LINE: "Look at the reason of the first job of the queue.",
    Code.BIND_REFUSED: "Do what the message of the API server says; the pod is tried again.",
    Code.INTERNAL_ERROR: "Report it as a bug of Stromboli; the log of the scheduler names a recording to attach.",
    Code.NOT_REACHED: "Nothing: the next cycle begins with it.",
    Code.INVALID_OBJECT: "Correct the object.",
    Code.NOT_TRIED: "Nothing: it is tried again in the next cycle.",
    Code.NO_PRIORITY_CLASS: "Create the PriorityClass, or use one that exists.",
    Code.NO_POD_GROUP: "Create the PodGroup, or correct the annotation of the pod.",
    Code.NO_QUEUE: "Create the queue, or use one that exists.",
    Code.PREDICATE_NODE_READY: "Repair the nodes that are not ready.",
    Code.PREDICATE_POD_COUNT: "Add nodes, or allow more pods per node.",
    Code.PREDICATE_NODE_UNSCHEDULABLE: "Uncordon nodes.",
    Code.PREDICATE_NODE_AFFINITY: "Change the node selector or affinity of the job, or label nodes.",
    Code.PREDICATE_TAINT_TOLERATION: "Add a toleration if the job may run on those nodes.",
    Code.PREDICATE_NODE_GROUP: "Change the affinity of the queue or its limit in a group, or label nodes.",
    Code.PREDICATE_NODE_LOAD: "Wait until nodes are used less, add nodes, or raise the thresholds of the plugin usage.",
    Code.PREDICATE_NODE_PORTS: "Use another host port, or none.",
    Code.PREDICATE_PROPORTION: "Add nodes without the scarce resource, or lower resourceProportion.",
    Code.PREDICATE_INTER_POD_AFFINITY: "Check which pods the affinity terms select.",
    Code.CLAIM_MISSING: "Create the PersistentVolumeClaim that the pod names, or correct its name.",
    Code.CLAIM_UNBOUND: "Find out why the claim has no volume: kubectl describe pvc.",
    Code.RESOURCE_CLAIMS_UNSUPPORTED: "Use extended resources instead of resource claims.",
    Code.WAITING_FOR_VOLUMES: "Nothing: it starts when its volumes are provisioned.",
    Code.PREDICATE_VOLUME_AFFINITY: "Use nodes that can reach the volume, or another volume.",
    Code.PREDICATE_VOLUME_BINDING: "Provide a volume or a storage class for nodes that the pod may use.",
    Code.PREDICATE_VOLUME_LIMITS: "Use nodes with fewer volumes, or add nodes.",
    Code.PREDICATE_VOLUME_IN_USE: "Wait until the pod that uses the volume has ended.",
    Code.PREDICATE_POD_TOPOLOGY_SPREAD: "Free resources in the emptier domains, or allow more skew.",
}


_STEPS_IF_NEVER = {
    Code.INSUFFICIENT_NODE: "Request less, or add nodes that are large enough.",
    Code.GANG_SHORT: "Lower {minimum}, request less for each pod, or add nodes.",
    Code.DOMAIN_SHORT: "Request less, allow a higher tier, or add nodes to a domain.",
    Code.SUB_GROUP_SHORT: "Lower {sub_groups}, request less for each pod, or add nodes to a domain.",
    Code.QUEUE_OVER_QUOTA: "Request less, or raise the capability of the queue.",
}
"""Waiting does not help."""


_GUARANTEED = "Wait until jobs of the queue finish, or lower the guarantees of other queues."
_GUARANTEED_NEVER = "Request less, or lower the guarantees of other queues."


_OF_KUBERNETES = {
    Code.NO_POD_GROUP: "Create the group that is missing, or correct the name by which others call it.",
    Code.DOMAIN_SHORT: "Request less, or wait until pods in one domain finish.",
    Code.NO_DOMAIN: "Label nodes, or correct the key of the topology constraint.",
    Code.NOT_ENOUGH_SUB_GROUPS: "Create the missing pods, or lower minCount of their PodGroup.",
}
_OF_KUBERNETES_IF_NEVER = {
    Code.DOMAIN_SHORT: "Request less, or add nodes to a domain.",
}
"""Groups of scheduling.k8s.io have no HyperNodes, no tiers and no policies."""


def next_step(code: str, message: str = "", *, kind: str = "Job", group: str = "") -> str:
    """`message`: the sentence with the code. `kind`: of what the user created; `group`: its PodGroup, by the key that
    it has in this program. Empty for codes of your own plugins."""
    if code == Code.INTERNAL_ERROR and says_error_of_plugin(message):
        return "Report it to the author of the plugin; the log of the scheduler has the traceback."
    if code == Code.QUEUE_OVER_QUOTA and says_guaranteed(message):
        return _GUARANTEED_NEVER if says_never(message) else _GUARANTEED
    if code == Code.SCHEDULING_GATED and message.startswith(QUEUE_GATE):
        return "Wait until its queue has room; the scheduler removes the gate then."
    if says_never(message) and code in _STEPS_IF_NEVER:
        return _named(code, _STEPS_IF_NEVER, _OF_KUBERNETES_IF_NEVER, kind, group)
    if says_that_pods_are_created(message):
        return "Nothing: it is tried as soon as the controllers have created its pods."
    return _named(code, _STEPS, _OF_KUBERNETES, kind, group)


def _named(code: str, steps: Mapping[str, str], of_kubernetes: Mapping[str, str], kind: str, group: str) -> str:
    """With the fields in which the user states how many pods, and how many sub-groups, must start together."""
    written = written_type(group)
    if written is not None:
        steps = {**steps, **of_kubernetes}
        minimum = sub_groups = "minGroupCount" if written is CompositePodGroup else "minCount"
    elif kind == "Job":
        minimum, sub_groups = "minAvailable", "minPartitions"
    else:
        minimum, sub_groups = "minMember", "minSubGroups"
    return steps.get(code, "").format(minimum=minimum, sub_groups=sub_groups)
