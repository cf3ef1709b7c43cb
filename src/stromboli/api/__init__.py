"""What users write: typed Kubernetes objects, exact amounts, selectors, and the rules an object must
keep."""

from stromboli.api.objects import *  # noqa: F403
from stromboli.api.objects import __all__ as __all__
