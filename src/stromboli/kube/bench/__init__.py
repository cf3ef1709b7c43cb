"""The benchmark of the scheduler on a real API server.

throughput      the measurements
workload        the nodes, gangs and pods that are measured with
child_process   the scheduler process that is measured
"""

from .throughput import BenchmarkPlan, BenchmarkResult, benchmark
from .workload import PODS_PER_NODE

__all__ = ["PODS_PER_NODE", "BenchmarkPlan", "BenchmarkResult", "benchmark"]
