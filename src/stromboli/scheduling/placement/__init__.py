"""Where a task fits and which place is best: masks and scores over all nodes, and the kernels that place gangs.

`Placement` is a session's view of all of it, `Fitting` one kind of task on all nodes. The kernels come twice, compiled
(Numba) and as the readable reference (NumPy); `kernel_choice` picks.
"""

from .fitting import Fitting
from .kernel_choice import BIG_CLUSTER
from .placement import Placement

__all__ = ["BIG_CLUSTER", "Fitting", "Placement"]
