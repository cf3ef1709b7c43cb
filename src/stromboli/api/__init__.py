"""What users write: typed Kubernetes objects, exact amounts, selectors, and the rules an object must keep."""

from stromboli.api.validation.objects import validate, validate_update

from . import objects as _objects
from .decoder import decode, decode_json
from .defaults import default
from .errors import ApiError
from .merge_patch import merge_patch
from .objects import *  # noqa: F403

__all__ = ["ApiError", "decode", "decode_json", "default", "merge_patch", "validate", "validate_update"]
__all__ += _objects.__all__
