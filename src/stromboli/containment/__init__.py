"""An error belongs to the object it happened on.

What one object does to our code must not stop the others. An error while one object is handled is undone, the object is
put aside for a growing time, and everything else goes on. This package has what all parts of a live process share: who
an error is charged to and what is known about it (`ContainedError`), and for how long its object is put aside
(`PutAside`). It knows no part: the scheduler's side is in `scheduling.containment`, log lines and metrics are in
`kube.runtime`. docs/containment.md describes it for users.
"""

from .contained_error import ContainedError, ObjectRef, Strictness, contained_error
from .plugin_failure import PluginFailure, WrongAnswer, announce_plugin, plugin_failure
from .put_aside import PutAside

__all__ = [
    "ContainedError",
    "ObjectRef",
    "PluginFailure",
    "PutAside",
    "Strictness",
    "WrongAnswer",
    "announce_plugin",
    "contained_error",
    "plugin_failure",
]
