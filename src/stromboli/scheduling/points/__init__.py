"""Extension points: each is one typed object, which knows its callbacks and how their answers become one."""

from .all_points import Points
from .answer_checks import CheckedKey, checked_filter, refuse_unknown
from .point import BELOW_PLUGINS, Batching, Desk, Hook, NotForPlugins, Point, Verdicts

__all__ = [
    "BELOW_PLUGINS",
    "Batching",
    "CheckedKey",
    "Desk",
    "Hook",
    "NotForPlugins",
    "Point",
    "Points",
    "Verdicts",
    "checked_filter",
    "refuse_unknown",
]
