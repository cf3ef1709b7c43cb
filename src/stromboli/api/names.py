"""Names of labels, annotations and quota keys.

Volcano's names are kept because existing manifests use them. Where there are two names for one thing, both are read and
the first one is written. Our own names end in `stromboli.io`.
"""

from __future__ import annotations

LONGEST = 253  # characters of the name of an object

DEFAULT_NAMESPACE = "default"
DEFAULT_QUEUE = "default"
ROOT_QUEUE = "root"
DEFAULT_SCHEDULER = "volcano"
# Where Commands for queues are obeyed; Volcano's command line creates them in `default`.
ADMINISTRATORS = ("default", "kube-system", "stromboli-system")

# The group, queue and role of a pod.
GROUP_NAME = "scheduling.k8s.io/group-name"
GROUP_NAME_VOLCANO = "scheduling.volcano.sh/group-name"
GROUP_NAMES = (GROUP_NAME, GROUP_NAME_VOLCANO)
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
GROUP_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
GROUP_MIN_RESOURCES = "scheduling.volcano.sh/group-min-resources"
TASK_SPEC = "volcano.sh/task-spec"
TASK_PRIORITY = "volcano.sh/task-priority"

# What the Job controller writes on the pods it creates.
JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
JOB_QUEUE = "volcano.sh/queue-name"
JOB_VERSION = "volcano.sh/job-version"
JOB_RETRY_COUNT = "volcano.sh/job-retry-count"
TASK_INDEX = "volcano.sh/task-index"
PARTITION_ID = "volcano.sh/partition-id"
TEMPLATE_UID = "volcano.sh/template-uid"
VOLCANO_PREFIX = "volcano.sh/"

# What the CronJob controller writes on the Jobs it creates: the time for which they are.
SCHEDULED_AT = "volcano.sh/cronjob-scheduled-timestamp"

# What the JobFlow controller writes on the Jobs it creates, as labels and as annotations: "namespace.name".
CREATED_BY_FLOW = "volcano.sh/createdByJobFlow"
CREATED_BY_TEMPLATE = "volcano.sh/createdByJobTemplate"

# Who made a HyperNode, if no user did.
TOPOLOGY_SOURCE = "volcano.sh/network-topology-source"

# How a pod, a job or a queue is scheduled.
PREEMPTABLE = "volcano.sh/preemptable"
REVOCABLE_ZONE = "volcano.sh/revocable-zone"
COOLDOWN_TIME = "volcano.sh/cooldown-time"
JDB_MIN_AVAILABLE = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
SLA_WAITING_TIME = "volcano.sh/sla-waiting-time"
SLA_WAITING_TIMES = (SLA_WAITING_TIME, "sla-waiting-time")
NUMA_TOPOLOGY_POLICY = "volcano.sh/numa-topology-policy"
QOS_LEVEL = "volcano.sh/qos-level"
QUEUE_ALLOCATION_GATE = "scheduling.volcano.sh/queue-allocation-gate"
HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
TASK_AFFINITY = "volcano.sh/task-topology-affinity"
TASK_ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
TASK_ORDER = "volcano.sh/task-topology-task-order"
RESOURCE_STRATEGY = "volcano.sh/resource-strategy-scoring-type"
RESOURCE_STRATEGY_WEIGHT = "volcano.sh/resource-strategy-weight"
NODE_GROUP = "volcano.sh/nodegroup-name"
NODE_GROUP_LIMITS = "volcano.sh/nodegroup-resource-limits"

# A key of ResourceQuota.spec.hard, not an annotation.
NAMESPACE_WEIGHT = "volcano.sh/namespace.weight"

# Ours.
BACKFILL = "scheduling.stromboli.io/backfill"
BACKFILL_LEGACY = "scheduling.k8s.io/kube-batch-backfill"
BACKFILL_NAMES = (BACKFILL, BACKFILL_LEGACY)
LENT_CONDITION = "scheduling.stromboli.io/Backfill"  # of a pod: that it runs on lent resources
ESTIMATE = "scheduling.stromboli.io/estimate"
GOES_WHOLE = "scheduling.stromboli.io/goes-whole"
RESERVATION_ALLOCATED = "scheduling.stromboli.io/reservation"
POD_LABELS = "scheduling.stromboli.io/pod-labels"
SUBMITTER = "scheduling.stromboli.io/user"  # who created a Job, a PodGroup or a pod; without it, its namespace did

# Moves of the descheduler. On a pod or its group: its owner agrees that it is moved although its work is lost.
MOVABLE = "scheduling.stromboli.io/movable"
# On the Reservation of a move.
MIGRATION_SOURCE = "scheduling.stromboli.io/migration-source"
MIGRATION_PLAN = "scheduling.stromboli.io/migration-plan"
MIGRATION_MOVES = "scheduling.stromboli.io/migration-moves"
MIGRATION_FOR = "scheduling.stromboli.io/migration-for"
MIGRATION_COOLDOWN = "scheduling.stromboli.io/migration-cooldown"
FAILED_PLANS = "scheduling.stromboli.io/failed-plans"
# On nodes and groups that took part in moves: until when they rest, and for which group a node was emptied.
COOLDOWN_UNTIL = "scheduling.stromboli.io/cooldown-until"
EMPTIED_FOR = "scheduling.stromboli.io/emptied-for"
# On nodes that cluster-autoscaler must not remove.
KEEPS_NODE = "scheduling.stromboli.io/keeps-node"  # we set the next one
SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
SELECTED_AT = "scheduling.stromboli.io/selected-at"

# Of pods and nodes: Kubernetes' own. A mirror pod shows a static pod that a kubelet runs by itself.
MIRROR = "kubernetes.io/config.mirror"
# Taints that Kubernetes sets and removes by itself: not-ready, unschedulable, disk-pressure and so on.
LIFECYCLE_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
MEMORY_PRESSURE = "node.kubernetes.io/memory-pressure"  # the one that all pods with requests tolerate
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

# Of claims, volumes and classes: Kubernetes' own.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"

# When the events of a scenario happen.
SIM_AT = "sim.stromboli.io/at"
SIM_UNTIL = "sim.stromboli.io/until"
SIM_RUN = "sim.stromboli.io/run"
SIM_EXIT_CODE = "sim.stromboli.io/exit-code"
SIM_GRACE = "sim.stromboli.io/grace"
SIM_USAGE = "sim.stromboli.io/usage"
SIM_PROVISION = "sim.stromboli.io/provision"
SIM_PROVISION_FAILS = "sim.stromboli.io/provision-fails"
SIM_API_VERSION = "sim.stromboli.io/v1"
