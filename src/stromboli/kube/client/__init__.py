"""A typed client for Kubernetes API servers.

auth             kubeconfig, service account, tokens, exec plugins, TLS
client           the calls: get, list, watch, create, patch, replace, delete, bind, evict
reflector        keeps a cache of one kind by list and watch
resources        the path of each kind on the server
transport        requests with credentials; over a connection_pool of http_connections, or a proxied_session
errors           the one exception that a failed request raises, and what it means
rate_limit       token bucket
backoff          growing delays between attempts, of one thing or of each item of a set
concurrency      many requests with bounded concurrency, and a queue in which namespaces go by turns
merge_patch      JSON merge patches between two versions of an object
"""

from .auth import ClientConfig, from_kubeconfig, in_cluster, load_client_config
from .backoff import Backoff, ItemBackoff
from .client import Client
from .concurrency import FairQueue, for_each_concurrently, namespace_of
from .errors import (
    NO_RESPONSE,
    UNREACHABLE,
    Failure,
    is_already_exists,
    is_conflict,
    is_gone,
    is_not_found,
)
from .kinds import Event, EventSource, Lease, LeaseSpec
from .merge_patch import object_and_status_patches
from .rate_limit import TokenBucket
from .reflector import Contain, Reflector
from .resources import (
    BATCH_JOBS,
    COMMANDS,
    COMPOSITE_POD_GROUPS,
    CONFIG_MAPS,
    CRON_JOBS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    HYPER_NODES,
    JOB_FLOWS,
    JOB_TEMPLATES,
    JOBS,
    LEASES,
    LEGACY_BUDGETS,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    REPLICA_SETS,
    RESERVATIONS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    WORKLOAD_POD_GROUPS,
    Resource,
    resource_of,
)
from .wire import Envelope, ObjectList, Page, WatchEvent

__all__ = [
    "BATCH_JOBS",
    "COMMANDS",
    "COMPOSITE_POD_GROUPS",
    "CONFIG_MAPS",
    "CRON_JOBS",
    "CSI_DRIVERS",
    "CSI_NODES",
    "CSI_STORAGE_CAPACITIES",
    "CUSTOM_RESOURCE_DEFINITIONS",
    "EVENTS",
    "HYPER_NODES",
    "JOBS",
    "JOB_FLOWS",
    "JOB_TEMPLATES",
    "LEASES",
    "LEGACY_BUDGETS",
    "NAMESPACES",
    "NETWORK_POLICIES",
    "NODES",
    "NO_RESPONSE",
    "PERSISTENT_VOLUMES",
    "PERSISTENT_VOLUME_CLAIMS",
    "PODS",
    "POD_DISRUPTION_BUDGETS",
    "POD_GROUPS",
    "PRIORITY_CLASSES",
    "QUEUES",
    "REPLICA_SETS",
    "RESERVATIONS",
    "RESOURCE_QUOTAS",
    "SECRETS",
    "SERVICES",
    "STATEFUL_SETS",
    "STORAGE_CLASSES",
    "UNREACHABLE",
    "WORKLOAD_POD_GROUPS",
    "Backoff",
    "Client",
    "ClientConfig",
    "Contain",
    "Envelope",
    "Event",
    "EventSource",
    "Failure",
    "FairQueue",
    "ItemBackoff",
    "Lease",
    "LeaseSpec",
    "ObjectList",
    "Page",
    "Reflector",
    "Resource",
    "TokenBucket",
    "WatchEvent",
    "for_each_concurrently",
    "from_kubeconfig",
    "in_cluster",
    "is_already_exists",
    "is_conflict",
    "is_gone",
    "is_not_found",
    "load_client_config",
    "namespace_of",
    "object_and_status_patches",
    "resource_of",
]
