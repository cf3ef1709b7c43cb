"""What users write: typed Kubernetes objects, exact amounts, selectors, and the rules an object must keep."""

from stromboli.api import objects as _objects
from stromboli.api.decoding import decode, decode_json
from stromboli.api.defaulting import default
from stromboli.api.errors import ApiError
from stromboli.api.objects import *  # noqa: F403
from stromboli.api.patching import merge_patch
from stromboli.api.validation import validate, validate_update

__all__ = ["ApiError", "decode", "decode_json", "default", "merge_patch", "validate", "validate_update"]
__all__ += _objects.__all__
