"""Names of jobs as people type them: `training`, `lab/training`, or `job/training` as for kubectl.

What stands before the slash is a namespace. Only if there is nothing of that name, it may be meant as a kind. A name
without a slash is in the namespace of the context, as for kubectl.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from stromboli.nearest_name import nearest_name

_KINDS: Final = ("job", "podgroup", "pod", "replicaset", "statefulset", "daemonset")
_SHORT: Final = {
    "pg": "podgroup", "po": "pod", "rs": "replicaset", "sts": "statefulset", "ds": "daemonset", "vcjob": "job",
    "vj": "job",
}  # fmt: skip


def full_name(name: str, namespace: str) -> str:
    return name if "/" in name else f"{namespace}/{name}"


def without_kind(name: str, namespace: str) -> str:
    """The full name of what is meant if the part before the slash is a kind; "" if it is none."""
    first, _, rest = name.partition("/")
    first = first.lower()
    is_kind = first in _SHORT or first.removesuffix("s") in _KINDS
    return full_name(rest, namespace) if is_kind and rest else ""


def suggestion(name: str, known: Collection[str], namespace: str) -> str:
    """The end of a message about a job that does not exist: the name that was probably meant; or "". `known`: the full
    names of all jobs."""
    first, _, rest = name.partition("/")
    here = [one for one in known if one.startswith(f"{first}/")]
    # A Deployment or a CronJob is not a job itself; what it has made begins with its name.
    near = next((one for one in sorted(here) if one.startswith(f"{name}-")), "") or nearest_name(name, here)
    if not near and (kind := nearest_name(first.removesuffix("s"), _KINDS)) and full_name(rest, namespace) in known:
        near = f"{kind}/{rest}"
    if not near:
        near = next((one for one in sorted(known) if one.endswith(f"/{rest}")), "")
    return f"; did you mean {near}?" if near else "."
