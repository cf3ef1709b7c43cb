"""How a pod that only pretends to run behaves, in the annotations `sim.stromboli.io/*`.

A pod, or the template pods are made from, says how long it runs, how it ends and how long it takes to go. The simulator
reads this in virtual time and hollow nodes in real time, so one scenario tells the same story on both.

Lengths of time are seconds. What cannot be read is an ApiError: an annotation that nobody understands would otherwise
just not happen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import names
from .errors import ApiError
from .quantity import QuantityError, parse_duration


@dataclass(frozen=True, slots=True)
class PodTiming:
    run: float | None = None  # None: for ever
    exit_code: int = 0
    grace: float | None = None  # None: not said


def pod_timing(annotations: Mapping[str, str], *, field: str = "metadata.annotations") -> PodTiming:
    """How a pod runs; raises ApiError for what cannot be read."""
    code = annotations.get(names.SIM_EXIT_CODE, "0")
    if not (code.isascii() and code.isdigit() and int(code) <= 255):
        raise ApiError(f"{field}[{names.SIM_EXIT_CODE}]", f'must be a whole number from 0 to 255, not "{code}"')
    return PodTiming(
        run=stated_duration(annotations, names.SIM_RUN, field=field),
        exit_code=int(code),
        grace=stated_duration(annotations, names.SIM_GRACE, field=field),
    )


def stated_duration(annotations: Mapping[str, str], name: str, *, field: str) -> float | None:
    """The seconds an annotation says, or None where there is no such annotation."""
    text = annotations.get(name)
    if text is None:
        return None
    try:
        return parse_duration(text)
    except QuantityError as error:
        raise ApiError(f"{field}[{name}]", str(error)) from None
