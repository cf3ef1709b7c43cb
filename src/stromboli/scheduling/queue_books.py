"""What queues are guaranteed, what they can reach, and what is theirs alone.

Sharing plugins and actions ask here instead of reading the specs of queues. Without a feature that changes them the
answers are plain: the guarantee of the spec, the whole cluster, nothing. A feature that sets nodes aside for queues
puts its own books in the session (`session.books`) before plugins are opened.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stromboli.cluster import Queue, Task, Vector

from .callbacks import Refusal, Verdict

RowMask = npt.NDArray[np.bool_]


class QueueBooks:
    def __init__(self, divisible: Vector) -> None:
        self._divisible = divisible
        self._all: list[int] = divisible.tolist()
        self._nothing = np.zeros_like(divisible)

    def guarantee(self, queue: Queue) -> Vector:
        """What nobody else may have. A queue that is not open is guaranteed nothing beyond its use."""
        if queue.guarantee is None:
            return self._nothing
        return queue.guarantee if queue.open else np.minimum(queue.guarantee, queue.occupied)

    def guarantee_with(self, queue: Queue, below: int, column: int) -> int:
        """The guarantee of an inner queue in one resource, if the queues below it are guaranteed so much together."""
        return int(self.guarantee(queue)[column]) or below

    def allocated(self, queue: Queue) -> Vector:
        """What counts as the queue's, used or not."""
        return queue.allocated

    def deserved_before(self, queue: Queue, moment: float) -> Vector | None:
        """What the queue would deserve if others had set nothing aside since then; None if that changes nothing."""
        return None

    def reach(self, queue: Queue) -> list[int]:
        """What there is for queues on nodes that this one may use, by column."""
        return self._all

    def unused(self, queue: Queue) -> Vector | None:
        """What counts as the queue's on nodes of its own and is not used by its pods; None if it has no such nodes."""
        return None

    def returns_to_own_rows(self, task: Task) -> bool:
        """Whether a running task would find room now on nodes of its queue's own, if it has any with room."""
        return True

    def own_rows(self, task: Task) -> RowMask | None:
        """The nodes that count as the queue's already, used or not; None if there are none."""
        return None

    def refuse_on_own_rows(self, queue: Queue, request: Vector) -> Refusal | None:
        """Why a queue may not use so much more of them."""
        return None

    def may_take_back(self, evictor: Task, candidate: Task, whole: bool) -> Verdict:
        """Whether a candidate on a node of the evictor's queue may be reclaimed; NOTHING on all other nodes."""
        return Verdict.NOTHING
