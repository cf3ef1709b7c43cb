"""What can be wrong with a patch."""


class PatchError(ValueError):
    """The patch itself is malformed."""


class PatchFailed(ValueError):
    """The patch is well-formed, but cannot be applied to this object."""
