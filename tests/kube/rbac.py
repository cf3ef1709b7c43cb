"""The permissions that the service accounts of deploy/ need, written independently of deploy/ for a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

NAMESPACE = "stromboli-system"

Permission = tuple[str, str, str]  # verb, group, resource


def permissions(table: Mapping[tuple[str, str], str]) -> Iterator[Permission]:
    for (group, resource), verbs in table.items():
        for verb in verbs.split():
            yield verb, group, resource


_GROUPS: Mapping[tuple[str, str], str] = {
    ("scheduling.k8s.io", "podgroups"): "list watch",
    ("scheduling.k8s.io", "compositepodgroups"): "list watch",
}
_GROUP_STATUSES: Mapping[tuple[str, str], str] = {
    ("scheduling.k8s.io", "podgroups/status"): "patch",
    ("scheduling.k8s.io", "compositepodgroups/status"): "patch",
}

SCHEDULER: Mapping[tuple[str, str], str] = {
    **_GROUPS,
    **_GROUP_STATUSES,
    ("", "namespaces"): "list watch",
    ("", "nodes"): "list watch",
    ("", "resourcequotas"): "list watch",
    ("scheduling.k8s.io", "priorityclasses"): "list watch",
    ("policy", "poddisruptionbudgets"): "list watch",
    ("", "pods"): "get list watch patch",
    ("", "pods/binding"): "create",
    ("", "pods/eviction"): "create",
    ("", "pods/status"): "patch",
    ("scheduling.volcano.sh", "podgroups"): "list watch",
    ("", "persistentvolumeclaims"): "list watch patch",
    ("", "persistentvolumes"): "list watch patch",
    ("storage.k8s.io", "storageclasses"): "list watch",
    ("storage.k8s.io", "csinodes"): "list watch",
    ("storage.k8s.io", "csidrivers"): "list watch",
    ("storage.k8s.io", "csistoragecapacities"): "list watch",
    ("scheduling.volcano.sh", "podgroups/status"): "patch",
    ("scheduling.volcano.sh", "queues"): "list watch create",
    ("scheduling.volcano.sh", "queues/status"): "patch",
    ("scheduling.volcano.sh", "reservations"): "get list watch create delete",
    ("scheduling.volcano.sh", "reservations/status"): "patch",
    ("topology.volcano.sh", "hypernodes"): "list watch",
    ("metrics.k8s.io", "nodes"): "list",
    ("", "events"): "create patch",
}

FINALIZERS: Mapping[tuple[str, str], str] = {
    ("batch.volcano.sh", "jobs/finalizers"): "update",
    ("batch.volcano.sh", "cronjobs/finalizers"): "update",
    ("flow.volcano.sh", "jobflows/finalizers"): "update",
    ("", "pods/finalizers"): "update",
    ("apps", "daemonsets/finalizers"): "update",
    ("apps", "replicasets/finalizers"): "update",
    ("apps", "statefulsets/finalizers"): "update",
    ("batch", "jobs/finalizers"): "update",
}
"""Asked for by an admission plugin, of nothing that can be requested."""

CONTROLLERS: Mapping[tuple[str, str], str] = {
    **_GROUPS,
    ("scheduling.k8s.io", "priorityclasses"): "list watch",
    ("apps", "replicasets"): "list watch",
    ("apps", "statefulsets"): "list watch",
    ("", "nodes"): "list watch",  # to lock some of them for queues
    ("", "namespaces"): "list watch",  # the queues of namespaces
    ("scheduling.volcano.sh", "reservations"): "list watch delete",
    ("scheduling.volcano.sh", "reservations/status"): "patch",
    ("", "pods"): "list watch create patch delete",
    ("batch.volcano.sh", "jobs"): "list watch create delete",
    ("batch.volcano.sh", "jobs/status"): "patch",
    ("batch.volcano.sh", "cronjobs"): "list watch",
    ("batch.volcano.sh", "cronjobs/status"): "patch",
    ("flow.volcano.sh", "jobflows"): "list watch",
    ("flow.volcano.sh", "jobflows/status"): "patch",
    ("flow.volcano.sh", "jobtemplates"): "list watch",
    ("flow.volcano.sh", "jobtemplates/status"): "patch",
    ("scheduling.volcano.sh", "podgroups"): "list watch create patch delete",
    ("scheduling.volcano.sh", "podgroups/status"): "patch",
    ("scheduling.volcano.sh", "queues"): "list watch create patch",
    ("scheduling.volcano.sh", "queues/status"): "patch",
    ("topology.volcano.sh", "hypernodes"): "list watch create patch delete",
    ("topology.volcano.sh", "hypernodes/status"): "patch",
    ("bus.volcano.sh", "commands"): "list watch delete",
    ("", "persistentvolumeclaims"): "get create",
    ("", "events"): "create patch",
    **FINALIZERS,
}

DESCHEDULER: Mapping[tuple[str, str], str] = {
    **_GROUPS,
    ("", "namespaces"): "list watch",
    ("", "pods"): "get list watch",
    ("", "resourcequotas"): "list watch",
    ("", "nodes"): "list watch patch",
    ("scheduling.k8s.io", "priorityclasses"): "list watch",
    ("policy", "poddisruptionbudgets"): "list watch",
    ("apps", "replicasets"): "list watch",
    ("apps", "statefulsets"): "list watch",
    ("", "persistentvolumeclaims"): "list watch",
    ("", "persistentvolumes"): "list watch",
    ("storage.k8s.io", "storageclasses"): "list watch",
    ("storage.k8s.io", "csinodes"): "list watch",
    ("storage.k8s.io", "csidrivers"): "list watch",
    ("storage.k8s.io", "csistoragecapacities"): "list watch",
    ("batch.volcano.sh", "jobs"): "list watch",
    ("scheduling.volcano.sh", "queues"): "list watch",
    ("scheduling.volcano.sh", "podgroups"): "list watch patch",
    ("scheduling.volcano.sh", "podgroups/status"): "patch",
    ("scheduling.volcano.sh", "reservations"): "get list watch create patch delete",
    ("scheduling.volcano.sh", "reservations/status"): "patch",
    ("topology.volcano.sh", "hypernodes"): "list watch",
    ("", "pods/eviction"): "create",
    ("metrics.k8s.io", "pods"): "list",
    ("authentication.k8s.io", "tokenreviews"): "create",
    ("authorization.k8s.io", "subjectaccessreviews"): "create",
    ("", "events"): "create patch",
}
"""What the overlay descheduler adds."""

JOB_PLUGINS: Mapping[tuple[str, str], str] = {
    ("", "configmaps"): "get create patch",
    ("", "secrets"): "create",
    ("", "services"): "get create patch",
    ("networking.k8s.io", "networkpolicies"): "get create patch",
}
"""What the component job-plugins adds for the controllers."""

ACCOUNTS = {
    "stromboli-scheduler": SCHEDULER,
    "stromboli-controllers": CONTROLLERS,
    "stromboli-descheduler": DESCHEDULER,
}

EVERYBODY: Mapping[tuple[str, str], str] = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"): "create",
    ("authorization.k8s.io", "selfsubjectrulesreviews"): "create",
    ("authentication.k8s.io", "selfsubjectreviews"): "create",
    ("certificates.k8s.io", "clustertrustbundles"): "get list watch",  # in 1.37, of all service accounts
}
"""What every account may ask about itself, whatever it is."""

_PRESENT: Mapping[tuple[str, str], str] = {
    ("", "configmaps"): "get patch",
    ("", "persistentvolumeclaims"): "get",
    ("", "services"): "get patch",
    ("networking.k8s.io", "networkpolicies"): "get patch",
}

_FROM_LABELS: Mapping[tuple[str, str], str] = {
    ("topology.volcano.sh", "hypernodes"): "create patch delete",
}

_NEW_SERVERS: Mapping[Permission, str] = dict.fromkeys(
    (*permissions(_GROUPS), *permissions(_GROUP_STATUSES)), "only servers of 1.37 and later have them"
)

LEASES: set[Permission] = {(verb, "coordination.k8s.io", "leases") for verb in ("create", "get", "update")}
"""What Roles allow in our own namespace."""

NOT_SEEN: Mapping[str, Mapping[Permission, str]] = {
    "stromboli-scheduler": {
        **_NEW_SERVERS,
        ("get", "", "pods"): "after a bind or an eviction without an answer",
        ("patch", "", "pods"): "to remove the gate of a queue, from pods that ask for it",
        ("list", "metrics.k8s.io", "nodes"): "for the plugin usage, where a metrics server is installed",
        ("get", "scheduling.volcano.sh", "reservations"): "after a write without an answer, or a conflict",
        ("create", "scheduling.volcano.sh", "queues"): "if the controllers have not created the queue default",
        ("patch", "", "events"): "when an event happens again",
        ("patch", "", "persistentvolumes"): "for a volume that exists and is free",
        ("watch", "storage.k8s.io", "csistoragecapacities"): "old servers do not know them",
    },
    "stromboli-controllers": {
        **_NEW_SERVERS,
        **dict.fromkeys(permissions(FINALIZERS), "asked by an admission plugin only"),
        **dict.fromkeys(permissions(_PRESENT), "when the object exists: whose it is, and a Job that was scaled"),
        ("create", "scheduling.volcano.sh", "queues"): "if the scheduler has not created the queue default",
        ("delete", "", "pods"): "when a Job is restarted, aborted or made smaller",
        **dict.fromkeys(permissions(_FROM_LABELS), "only with --topology-keys"),
        ("delete", "scheduling.volcano.sh", "reservations"): "a day after they have ended",
        ("patch", "", "events"): "when an event happens again",
        ("patch", "scheduling.volcano.sh", "podgroups"): "when a Job, or the queue of its namespace, has changed",
        ("patch", "scheduling.volcano.sh", "podgroups/status"): "to say that a PodGroup is invalid",
        ("patch", "scheduling.volcano.sh", "queues"): "to mark the queues below one that is closed",
        ("patch", "scheduling.volcano.sh", "reservations/status"): "for Reservations that users make",
    },
    "stromboli-descheduler": {
        **_NEW_SERVERS,
        ("get", "", "pods"): "before a place is given up, after an eviction without an answer",
        ("list", "metrics.k8s.io", "pods"): "for LoadAware, where a metrics server is installed",
        ("patch", "", "events"): "when an event happens again",
        ("patch", "scheduling.volcano.sh", "reservations"): "when a plan fails and nodes stay set aside for its job",
        ("watch", "storage.k8s.io", "csistoragecapacities"): "old servers do not know them",
    },
}
"""Rights that no test of ours uses, each with the reason why it is granted all the same."""

VERBS = (
    *("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy"),
    *("bind", "escalate", "impersonate", "use", "approve", "sign", "attest", "*"),
)
