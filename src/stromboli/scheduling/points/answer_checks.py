"""What filters and scores of other distributions say of themselves, and the answers of their filters.

A wrong answer does harm much later, where nobody can tell whose it was: a list is no key of a table, and a mask of
booleans passes for the numbers of reasons. So each answer is looked at when it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from stromboli.cluster import Task
from stromboli.containment import WrongAnswer
from stromboli.scheduling.callbacks import DependsOn, KeyOfTask, NodeFilter, ReasonIds, Rows, Scope, Signature


def refuse_unknown(depends_on: Signature, scope: Scope | None) -> None:
    """At registration. `scope`: None where there is none to state."""
    told: object = depends_on
    if not isinstance(told, DependsOn) and (isinstance(told, type) or not callable(told)):
        known = ", ".join(str(one) for one in DependsOn)
        raise TypeError(f"depends_on is one of {known}, or a function of the task; it cannot be {told!r}")
    if scope is not None and not isinstance(scope, Scope):
        raise TypeError(f"scope is one of {', '.join(str(one) for one in Scope)}; it cannot be {scope!r}")


@dataclass(frozen=True, slots=True)
class CheckedKey:
    """Equal for equal functions, which are asked once."""

    plugin: str
    key: KeyOfTask

    def __call__(self, task: Task) -> Hashable:
        value = self.key(task)
        try:
            hash(value)
        except TypeError:
            problem = (
                f"the function given as depends_on returned {value!r}, which cannot be told apart from other values: "
                "let it return a text, a number, or a tuple of these"
            )
            raise WrongAnswer(self.plugin, self.key, problem) from None
        return value


def checked_filter(
    plugin: str, prepare: Callable[[Task], NodeFilter | None], reasons: Callable[[], int]
) -> Callable[[Task], NodeFilter | None]:
    """`reasons`: how many there are so far."""

    def refuse(what: str) -> WrongAnswer:
        return WrongAnswer(plugin, prepare, what)

    def prepare_checked(task: Task) -> NodeFilter | None:
        judge: object = prepare(task)
        if judge is None:
            return None
        if not callable(judge):
            raise refuse(f"for a task, a filter returns a function of rows or None, not {_kind(judge)}")

        def judge_checked(rows: Rows) -> ReasonIds:
            answers = np.asarray(judge(rows))
            if answers.shape != rows.shape or answers.dtype.kind not in "iu":
                raise refuse(
                    "for each row, the function of a filter returns 0 if the node can run the task, else the number "
                    f"that session.node_reason gave for the reason; here it returned {_kind(answers)} for "
                    f"{len(rows)} rows"
                )
            if len(answers) and not 0 <= answers.min() <= answers.max() <= reasons():
                raise refuse("the function of a filter returned a number that session.node_reason gave for no reason")
            return answers

        return judge_checked

    return prepare_checked


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype.name} with the shape {value.shape}"
    return repr(value)
