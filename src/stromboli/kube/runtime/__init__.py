"""What every process on a cluster needs, whichever components it runs.

process              starts the components, handles signals, stops in order
leader_election      which replica acts
health               /healthz, /readyz and /metrics
http_service         the HTTP server for these, and for requests of components
metrics, loop_lag    the metrics that all processes have
event_recorder       Kubernetes events
logs                 structured log lines
contained_errors     what is said about errors that were contained
config_reload        a configuration file that may change at any time
published_configuration  where the scheduler's configuration can be read
crd_check            whether our custom resources are installed
volume_kinds         which kinds about volumes are watched
garbage_collection   Python's garbage collector, run between cycles
waits                waiting for whichever comes first
"""

from .config_reload import ConfigurationFile
from .contained_errors import ErrorReporter
from .crd_check import NOT_INSTALLED, missing_definitions
from .event_recorder import EventRecorder, InvolvedObject
from .health import HealthServer
from .http_service import Reply, Request
from .leader_election import Fence, LeaderElector, Leadership, SoleReplica
from .logs import LimitedLog, Log, configure_logging
from .loop_lag import LoopLag
from .metrics import SECONDS_BUCKETS, ProcessMetrics, labelled_gauge
from .process import Component, ProcessContext, ProcessOptions, run_process
from .volume_kinds import volume_kinds, watch_more
from .waits import REQUEST_TIMEOUT, first_of, in_time

__all__ = [
    "NOT_INSTALLED",
    "REQUEST_TIMEOUT",
    "SECONDS_BUCKETS",
    "Component",
    "ConfigurationFile",
    "ErrorReporter",
    "EventRecorder",
    "Fence",
    "HealthServer",
    "InvolvedObject",
    "LeaderElector",
    "Leadership",
    "LimitedLog",
    "Log",
    "LoopLag",
    "ProcessContext",
    "ProcessMetrics",
    "ProcessOptions",
    "Reply",
    "Request",
    "SoleReplica",
    "configure_logging",
    "first_of",
    "in_time",
    "labelled_gauge",
    "missing_definitions",
    "run_process",
    "volume_kinds",
    "watch_more",
]
