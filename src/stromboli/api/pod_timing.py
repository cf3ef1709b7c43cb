"""How a simulated pod behaves, from the annotations `sim.stromboli.io/*`.

A pod, or its template, states how long it runs, its exit code, and how long its deletion takes. The simulator uses this
in virtual time and hollow nodes in real time, so that a scenario behaves the same on both.

Durations are seconds. An annotation that cannot be parsed is an ApiError: if it were ignored, its event would just not
happen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import names
from .errors import ApiError
from .quantity import QuantityError, amount, parse_duration


@dataclass(frozen=True, slots=True)
class PodTiming:
    run: float | None = None  # None: until it is deleted
    exit_code: int = 0
    grace: float | None = None  # None: not given


def pod_timing(annotations: Mapping[str, str], *, field: str = "metadata.annotations") -> PodTiming:
    """The timing of a pod; raises ApiError for an annotation that cannot be parsed."""
    code = annotations.get(names.SIM_EXIT_CODE, "0")
    if not (code.isascii() and code.isdigit() and int(code) <= 255):
        raise ApiError(f"{field}[{names.SIM_EXIT_CODE}]", f'must be a whole number from 0 to 255, not "{code}"')
    return PodTiming(
        run=annotated_duration(annotations, names.SIM_RUN, field=field),
        exit_code=int(code),
        grace=annotated_duration(annotations, names.SIM_GRACE, field=field),
    )


def pod_use(annotations: Mapping[str, str], *, field: str = "metadata.annotations") -> dict[str, int] | None:
    """What a pod really uses, exact amounts by resource, from a list such as `cpu=500m,memory=1Gi`; None if it is not
    given. Raises ApiError for a list that cannot be parsed."""
    text = annotations.get(names.SIM_USAGE)
    if text is None:
        return None
    use: dict[str, int] = {}
    for part in text.split(","):
        resource, equals, value = (piece.strip() for piece in part.partition("="))
        try:
            if not equals or not resource:
                raise QuantityError(f'must be like cpu=500m,memory=1Gi, not "{text}"')
            use[resource] = amount(resource, value)
        except QuantityError as error:
            raise ApiError(f"{field}[{names.SIM_USAGE}]", str(error)) from None
    return use


def annotated_duration(annotations: Mapping[str, str], name: str, *, field: str) -> float | None:
    """The duration in an annotation, in seconds; None if there is no such annotation."""
    text = annotations.get(name)
    if text is None:
        return None
    try:
        return parse_duration(text)
    except QuantityError as error:
        raise ApiError(f"{field}[{name}]", str(error)) from None
