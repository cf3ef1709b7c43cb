"""The controllers on a real API server.

component        the loop: takes events in, reconciles in a thread, writes the changes
observed_objects the objects that the controllers see, in the cache
command_queue    Commands, each executed at most once
change_writer    writes the changes of a pass; change_batches: which changes depend on each other
pod_templates    pods with every field of their task's template
metrics          metrics of passes and changes
"""

from .component import ControllersComponent
from .metrics import ControllerMetrics

__all__ = ["ControllerMetrics", "ControllersComponent"]
