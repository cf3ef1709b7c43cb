"""Where a task fits and which node is best: masks and scores over all nodes, and the kernels that place gangs.

`Placement` has the fittings of a session; a `Fitting` is one kind of task on all nodes. There are two versions of the
kernels, compiled (Numba) and readable (NumPy); `kernel_choice` selects one.
"""

from .fitting import Fitting
from .kernel_choice import BIG_CLUSTER, load_compiled_kernels
from .placement import Placement

__all__ = ["BIG_CLUSTER", "Fitting", "Placement", "load_compiled_kernels"]
