"""An error that was contained, as plain text: it is kept longer than the frames that it came from should live."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from .plugin_failure import plugin_failure


class ObjectRef(NamedTuple):
    kind: str
    key: str  # namespace/name, or the name

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class ContainedError:
    subject: ObjectRef  # whom it is charged to
    error: str  # its class, and whose plugin it is in: `ValueError in plugin "a" of distribution "b"`
    text: str  # what it says
    where: str  # the line that raised it
    traceback: str
    bystanders: tuple[ObjectRef, ...] = ()  # other objects that were looked at when it happened
    is_guess: bool = False  # it was near several errors, and another one without it shows that it was not the cause
    entirely: bool = False  # the object was put aside already, and has to go with all that it holds
    of_plugin: bool = False  # in code of another distribution

    @property
    def signature(self) -> tuple[ObjectRef, str, str]:
        """Equal for errors of one kind on one object."""
        return (self.subject, self.error, self.where)


class Strictness:
    """Tests are strict: an error is raised again where it would be contained, so that no bug stays hidden."""

    is_strict: ClassVar[bool] = False


def contained_error(error: BaseException, subject: ObjectRef, bystanders: tuple[ObjectRef, ...] = ()) -> ContainedError:
    """What is known of an error that is charged to an object. Every part of a process contains errors with this."""
    if Strictness.is_strict:
        raise error
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f"{Path(last[0].filename).name}:{last[0].lineno} in {last[0].name}" if last else "unknown"
    told = "".join(traceback.format_exception(error))
    failure = plugin_failure(error)
    name = type(error).__name__ if failure is None else f"{type(error).__name__} in {failure.plugin}"
    return ContainedError(subject, name, str(error), where, told, bystanders, of_plugin=failure is not None)
