"""What must hold half a minute after the last fault (statuses), and after a minute (everything), with room for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from .claims import claims_of
from .truth import Document, Truth, is_leaving, is_over, name, uid

JOBS: Final = "jobs.batch.volcano.sh"
GROUPS: Final = "podgroups.scheduling.volcano.sh"
QUEUES: Final = "queues.scheduling.volcano.sh"
RESERVATIONS: Final = "reservations.scheduling.volcano.sh"
GROUP_NAMES: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_ENDED: Final = ("Completed", "Failed", "Aborted", "Terminated")
_KINDS: Final = ("pods", "nodes", JOBS, GROUPS, QUEUES, RESERVATIONS)


class AtRest:
    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._found: list[tuple[str, str]] = []

    def _report(self, rule: str, text: str) -> None:
        self._found.append((rule, text))

    def check(
        self, late_writes: list[str], known: Mapping[str, Mapping[str, Mapping[str, str]]]
    ) -> list[tuple[str, str]]:
        """Rules that do not hold, each with what is wrong. `known`: by process and resource, the versions that it has
        of objects."""
        self._found = []
        if late_writes:
            self._report("rest", f"{len(late_writes)} writes although nothing happens, the last: {late_writes[-1]}")
        self._pods()
        self._groups()
        self._jobs()
        self._statuses()
        self._reservations()
        if self._truth.of("commands.bus.volcano.sh"):
            self._report("commands", f"nobody has obeyed {', '.join(self._truth.of('commands.bus.volcano.sh'))}")
        for process, by_resource in known.items():
            self._caches(process, by_resource)
        return self._found

    def page(self, shown: Mapping[str, int]) -> list[tuple[str, str]]:
        """`shown`: by node, how many pods the page says that it has."""
        there = Counter(pod["spec"].get("nodeName") for pod in self._truth.pods() if not is_over(pod))
        true = {node: there[node] for node in self._truth.of("nodes")}
        return [] if dict(shown) == true else [("page", f"the page shows {dict(shown)}, and it is {true}")]

    def statuses(self) -> list[tuple[str, str]]:
        """Only those that say what is not true."""
        self._found = []
        self._statuses()
        return self._found

    def _statuses(self) -> None:
        self._statuses_of_groups()
        self._statuses_of_jobs()
        self._statuses_of_queues()

    def _pods(self) -> None:
        for pod in self._truth.pods():
            if is_leaving(pod):
                self._report("pods", f"{name(pod)} is still being deleted")
            elif not pod["spec"].get("nodeName"):
                if any(claim["spec"].get("volumeName") for claim in claims_of(self._truth, pod)):
                    continue  # it must wait for the node that its volume is on
                if self._is_broken(pod):
                    continue
                self._report("pods", f"{name(pod)} has no node, with room for everybody")
            elif pod.get("status", {}).get("phase") == "Pending":
                self._report("pods", f"{name(pod)} on {pod['spec']['nodeName']} has not started")

    def _is_broken(self, pod: Document) -> bool:
        """Whether so many pods of its gang have failed that it cannot start any more."""
        for group in self._truth.of(GROUPS).values():
            members = self._members(group)
            failed = sum(member["status"].get("phase") == "Failed" for member in members)
            if pod in members and failed and len(members) - failed < group["spec"].get("minMember", 0):
                return True
        return False

    def _members(self, group: Document) -> list[Document]:
        key = name(group)
        return [
            pod for pod in self._truth.pods()
            if any((pod["metadata"].get("annotations") or {}).get(one) == key for one in GROUP_NAMES)
        ]  # fmt: skip

    def _groups(self) -> None:
        for group in self._truth.of(GROUPS).values():
            members = self._members(group)
            phases = Counter(pod["status"].get("phase") for pod in members)
            least = group["spec"].get("minMember", 0)
            on_nodes = sum(bool(pod["spec"].get("nodeName")) for pod in members)
            failed = phases["Failed"]
            if 0 < on_nodes < least and not failed and not phases["Succeeded"]:
                self._report("gangs", f"group {name(group)} has {on_nodes} of {least} pods on nodes")

    def _statuses_of_groups(self) -> None:
        for group in self._truth.of(GROUPS).values():
            phases = Counter(
                pod["status"].get("phase") for pod in self._members(group) if is_over(pod) or not is_leaving(pod)
            )
            status = group.get("status", {})
            for phase in ("Running", "Succeeded", "Failed"):
                said = status.get(phase.lower(), 0)
                if said != phases[phase]:
                    self._report("status", f"group {name(group)} says {said} {phase}, and has {phases[phase]}")

    def _jobs(self) -> None:
        for job in self._truth.of(JOBS).values():
            phase = job.get("status", {}).get("state", {}).get("phase", "")
            pods = [pod for pod in self._truth.pods() if _owned(pod, job)]
            wanted = sum(task["replicas"] for task in job["spec"]["tasks"])
            if phase in ("Pending", "Running", "Restarting") and len(pods) != wanted:
                self._report("jobs", f"job {name(job)} ({phase}) has {len(pods)} pods of {wanted}")
            if phase not in (*_ENDED, "Running") and not any(self._is_broken(pod) for pod in pods):
                self._report("jobs", f"job {name(job)} is {phase or 'without a phase'}, with room for everybody")

    def _statuses_of_jobs(self) -> None:
        for job in self._truth.of(JOBS).values():
            status = job.get("status", {})
            phase = status.get("state", {}).get("phase", "")
            pods = [pod for pod in self._truth.pods() if _owned(pod, job)]
            phases = Counter(pod["status"].get("phase") for pod in pods if not is_leaving(pod))
            for each in ("Pending", "Running", "Succeeded", "Failed"):
                said = status.get(each.lower(), 0)
                if said != phases[each] and not (phase in _ENDED and each in ("Succeeded", "Failed")):
                    self._report("status", f"job {name(job)} ({phase}) says {said} {each}, and has {phases[each]}")

    def _statuses_of_queues(self) -> None:
        for queue in self._truth.of(QUEUES).values():
            groups = [
                group for group in self._truth.of(GROUPS).values()
                if (group["spec"].get("queue") or "default") == name(queue)
            ]  # fmt: skip
            phases = Counter(group.get("status", {}).get("phase", "Pending") for group in groups)
            for phase in ("Pending", "Running", "Inqueue", "Unknown", "Completed"):
                said = queue.get("status", {}).get(phase.lower(), 0)
                if said != phases[phase]:
                    self._report("status", f"queue {name(queue)} says {said} {phase}, and has {phases[phase]}")

    def _reservations(self) -> None:
        pods = {uid(pod) for pod in self._truth.pods() if not is_over(pod)}
        for reservation in self._truth.of(RESERVATIONS).values():
            status = reservation.get("status", {})
            if status.get("phase") == "Available":
                gone = [user["name"] for user in status.get("currentOwners") or () if user["uid"] not in pods]
                if gone:
                    self._report("status", f"{name(reservation)} lists {', '.join(gone)}, which are gone")
                if reservation["spec"].get("allocateOnce") and len(status.get("currentOwners") or ()) > 1:
                    self._report("status", f"{name(reservation)} serves once, and lists several pods")
            if (status.get("phase") or "Pending") == "Pending":
                self._report("status", f"{name(reservation)} has no node, with room for everybody")

    def _caches(self, process: str, by_resource: Mapping[str, Mapping[str, str]]) -> None:
        for resource in _KINDS:
            if resource not in by_resource:
                continue
            true = {key: value["metadata"]["resourceVersion"] for key, value in self._truth.of(resource).items()}
            seen = dict(by_resource[resource])
            if seen != true:
                wrong = sorted(key for key in {*seen, *true} if seen.get(key) != true.get(key))
                key = wrong[0]
                self._report(
                    "knows", f"{process} knows {resource} {key} as of {seen.get(key)}, and it is {true.get(key)}"
                )


def _owned(pod: dict[str, Any], job: dict[str, Any]) -> bool:
    return any(owner["uid"] == uid(job) for owner in pod["metadata"].get("ownerReferences") or ())
