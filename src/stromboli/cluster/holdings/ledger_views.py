"""Views of the ledger: whether an answer about it is still good, and what has changed since.

Whoever keeps an answer has a view of what the answer depends on, and asks the view before giving the answer again. The
counters and logs behind the views are the ledger's own. Each has one meaning here, so that nobody has to know which of
them grows when. The logs are emptied by every snapshot: views of them belong to one session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from stromboli.cluster.ledger import Ledger
    from stromboli.cluster.model import Queue, Task

Item = TypeVar("Item")


class View:
    """One reader's view of something that is counted."""

    __slots__ = ("_count", "_seen")

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._seen = -1

    def changed(self) -> bool:
        """Whether something has changed since the last look, which this is from now on. At first, it has."""
        now = self._count()
        if now == self._seen:
            return False
        self._seen = now
        return True

    @property
    def is_current(self) -> bool:
        """Whether nothing has changed since the last look. This is not one."""
        return self._seen == self._count()

    def renew(self) -> None:
        """Look: the answer is as good as the ledger is now."""
        self._seen = self._count()


class LogView(View, Generic[Item]):
    """One reader's view of a log. Items are in the order of their changes, and as often as they changed."""

    __slots__ = ("_log",)

    def __init__(self, log: list[Item]) -> None:
        super().__init__(log.__len__)
        self._log = log

    @property
    def is_new(self) -> bool:
        """Whether nobody has looked yet: all may have changed."""
        return self._seen < 0

    def unread(self) -> list[Item]:
        """What has changed since the last look. This is not one."""
        return self._log[max(self._seen, 0) :]

    def news(self) -> list[Item]:
        """What has changed since the last look, which this is from now on."""
        before, self._seen = max(self._seen, 0), len(self._log)
        return self._log[before:] if before != self._seen else []


class JointView:
    """Several views, for an answer that depends on all of them."""

    __slots__ = ("_views",)

    def __init__(self, *views: View) -> None:
        self._views = views

    def changed(self) -> bool:
        return any([view.changed() for view in self._views])  # noqa: C419 - each of them has to look


class Moment:
    """When an answer was given."""

    __slots__ = ("_ledger", "_moved", "_settled")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._moved = len(ledger.log)
        self._settled = ledger.changes

    @property
    def nothing_moved(self) -> bool:
        """Whether no task has moved on any node since, not even tentatively."""
        return self._moved == len(self._ledger.log)

    @property
    def nothing_settled(self) -> bool:
        """Whether nothing that matters for decisions has happened since, but for what was only tried."""
        return self._settled == self._ledger.changes


class LedgerViews:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def moment(self) -> Moment:
        return Moment(self._ledger)

    def rows(self) -> LogView[int]:
        """Of the columns of nodes, and of the tasks on them."""
        return LogView(self._ledger.log)

    def tasks(self) -> LogView[Task]:
        """Of the statuses of jobs' tasks."""
        return LogView(self._ledger.task_log)

    def queues(self) -> LogView[Queue]:
        """Of what queues have."""
        return LogView(self._ledger.queue_log)

    def reserved(self) -> View:
        """Of the tasks that room is set aside for."""
        return View(lambda: self._ledger.reserved_epoch)

    def freed(self) -> View:
        """Of resources that may have become free: until then, what had no room has none."""
        return View(lambda: self._ledger.freed)

    def nodes(self) -> View:
        """Of what nodes offer, and whom they accept. It holds from one session to the next."""
        return View(lambda: self._ledger.node_changes)

    def settled(self) -> View:
        """Of all that matters for decisions, but for what is only tried. It holds from one session to the next."""
        return View(lambda: self._ledger.changes)

    def shown(self) -> View:
        """Of what objects say of themselves and no decision depends on. It holds from one session to the next."""
        return View(lambda: self._ledger.status_changes)
