"""What Kubernetes' own controllers do for workloads: one implementation, for simulations and for the embedded server.

`Surroundings` says in which of the two it runs. `WorkloadControllers` runs the controllers of all kinds; who has no
`ControllerManager` reports changes with `changed`, and objects that could not be created with `create_failed`.
"""

from __future__ import annotations

from .owned_pods import TRACKING
from .pod_template import WrittenTemplate
from .surroundings import Surroundings
from .workload_controllers import WorkloadControllers

__all__ = ["TRACKING", "Surroundings", "WorkloadControllers", "WrittenTemplate"]
