"""The descheduler on a real cluster.

component        the loop: runs when they are due, moves after every change
write_executor   carries out the descheduler's writes, each behind the fence
live_objects     the objects of the reflectors, as of one moment
pod_metrics      what pods really use, from the metrics API
http_api         plans and runs over HTTP
metrics          numbers for Prometheus
"""

from .component import DeschedulerComponent
from .http_api import DeschedulerApi
from .metrics import DeschedulerMetrics

__all__ = ["DeschedulerApi", "DeschedulerComponent", "DeschedulerMetrics"]
