"""Extension points: each is one typed object, which knows its callbacks and how their answers become one."""

from .all_points import Points
from .point import BELOW_PLUGINS, Batching, Desk, Hook, NotForPlugins, Point, Verdicts

__all__ = ["BELOW_PLUGINS", "Batching", "Desk", "Hook", "NotForPlugins", "Point", "Points", "Verdicts"]
