"""What users read about nodes that are reserved for a job that has starved."""

from __future__ import annotations

from collections.abc import Iterable

from stromboli.api.quantity import format_duration
from stromboli.grammar import plural


def starving_reserved(missing: Iterable[tuple[str, str, Iterable[str]]]) -> str:
    """For each node reserved for a job: its name, what is still missing there, and the pods that use it."""
    parts = []
    for node, short, running in missing:
        waits = sorted(running)
        names = ", ".join(waits[:3]) + (f" and {len(waits) - 3} more" if len(waits) > 3 else "")
        parts.append(f"{node} ({short} missing, waiting for {names})" if short else f"{node} (free)")
    return "Nodes are reserved for the job until all of it fits: " + "; ".join(parts) + "."


def reserved_nodes(missing: Iterable[tuple[str, str]]) -> str:
    """(node, what is still missing there) of each node set aside for a job."""
    parts = [f"{node} ({short} missing)" if short else node for node, short in missing]
    return "Reserved nodes: " + ", ".join(parts) + "."


def turn(seconds: float) -> str:
    """`seconds`: how long a job keeps nodes that do not drain; 0 for ever."""
    if not seconds:
        return "The nodes stay reserved until the job starts."
    return f"If nothing drains on them for {format_duration(seconds)}, the nodes may go to the next job in line."


def back_in_line(job: str) -> str:
    return f"Its nodes did not drain, so it gave its place to {job}. It waits in line for its next turn."


def reserved(node: str) -> str:
    return f"The job has waited too long: node {node} is reserved for this pod until all of the job fits."


def unreserved(node: str, reason: str) -> str:
    return f"Node {node} is no longer reserved for this pod: {reason}."


def limit_exceeded(needed: int, most: int) -> str:
    return (
        f"The job has waited too long, but it needs {plural(needed, 'more node')}, and at most {most} may be reserved "
        "in total. Raise reservedNodePercent of the reserve action."
    )
