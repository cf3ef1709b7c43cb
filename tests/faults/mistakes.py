"""Mistakes that worlds with faults must notice, made on purpose: each changes a few lines of the product, in a copy.

A checker that notices none of them any more is worth nothing, and so is a fault that no world meets any more.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mistake:
    what: str
    file: str
    right: str
    wrong: str
    also: Mistake | None = None
    """A second look at the same thing, which goes as well."""


MISTAKES: Final = {
    "fence": Mistake(
        "binds and evicts without asking whether it still leads", "kube/scheduler/binder.py",
        """                if not self._fence.is_leader:
                    self._not_sent""",
        """                if False:
                    self._not_sent""",
    ),
    "bind-again": Mistake(
        "binds again when the answer to a bind was lost", "kube/scheduler/binder.py",
        "pod = await self._bound_pod(request, failure)", "pod = None",
    ),
    "nomination": Mistake(
        "does not write for whom pods were evicted", "kube/scheduler/status_writer.py",
        "if patch.nominated != pod.status.nominated_node_name:", "if False:",
    ),
    "release": Mistake(
        "ends a Reservation as soon as it lists a pod, before that is bound", "controllers/reservations/lifecycle.py",
        """    if users and reservation.spec.allocate_once:
        pod = f"{users[0].metadata.namespace}/{users[0].metadata.name}"
""",
        """    if status.current_owners and reservation.spec.allocate_once:
        pod = status.current_owners[0].name
""",
    ),
    "version-controllers": Mistake(
        "writes a status without the version that it follows from", "kube/controllers/change_writer.py",
        """patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": version}""", "pass",
    ),
    "version-scheduler": Mistake(
        "writes the status of pods without the version that it follows from", "kube/scheduler/status_patch_queue.py",
        """({"resourceVersion": patch.version} if patch.version else {})""", "{}",
    ),
    "version-newest": Mistake(
        "writes what follows from an old version with the number of the newest", "kube/controllers/change_writer.py",
        """                written = await self._send(
                    lambda patch=patch""",
        """                newest = await self._send(lambda: self._client.get(resource, key(obj)))
                patch["metadata"]["resourceVersion"] = newest.metadata.resource_version
                written = await self._send(
                    lambda patch=patch""",
    ),
    "move": Mistake(
        "evicts a pod before the Reservation for its successor is Available", "descheduling/migration/progress.py",
        """            self._mark(by_step[Step.PLANNED])
""",
        """            for state in by_step[Step.PLANNED]:
                self._evict(state.move)
""",
        Mistake(
            "does not read the Reservation again", "kube/descheduler/write_executor.py",
            """            or fresh.status.phase != AVAILABLE
            or move is None
            or move.evicting_since is None
""",
            """            or move is None
""",
        ),
    ),
    "lease-local": Mistake(
        "counts its lease as renewed although the server did not say so", "kube/runtime/leader_election.py",
        """                self._log_failure(problem)
""",
        """                self._log_failure(problem)
                if self._leading:
                    self._renewed = self._clock()
""",
    ),
    "lease-wall-clock": Mistake(
        "takes a lease that has run out by the times written in it and its own clock",
        "kube/runtime/leader_election.py",
        "        return self._seen_at + (self._seen.lease",
        """        renewed = datetime.fromisoformat(self._seen.renew_time or "").timestamp()
        return self._clock() - self._wall_clock() + renewed + (self._seen.lease""",
    ),
    "answer-without-version": Mistake(
        "lets the answer to a write undo what a watch has shown since", "kube/client/reflector.py",
        """        if not is_newer(version, self._last_version) or (
            known is not None and not is_newer(version, known.metadata.resource_version)
        ):
            return
""",
        "",
    ),
    "watch-without-version": Mistake(
        "watches from now on after a list, and not from the version of the list", "kube/client/reflector.py",
        """                    await self._list()
                    self._must_list = False
""",
        """                    await self._list()
                    self._must_list, self._last_version = False, ""
""",
    ),
    "no-comparison": Mistake(
        "keeps what a list does not have any more", "kube/client/reflector.py",
        "missing = [key for key in self.objects if key not in listed]", "missing: list[str] = []",
    ),
    "no-comparison-of-changes": Mistake(
        "keeps what it knew of objects that a list shows changed", "kube/client/reflector.py",
        "if known is None or _identity(known) != _identity(obj):", "if known is None:",
    ),
}  # fmt: skip


def tried(mistake: Mistake, first: int, worlds: int) -> tuple[int, str]:
    """After how many worlds it was noticed, and by what; none if it was not."""
    with TemporaryDirectory() as folder:
        source = Path(shutil.copytree(ROOT / "src", Path(folder) / "src"))
        made: Mistake | None = mistake
        while made is not None:
            file = source / "stromboli" / made.file
            file.write_text(file.read_text().replace(made.right, made.wrong))
            made = made.also
        command = [sys.executable, "-m", "tests.faults", "--first", str(first), "--seeds", str(worlds), "--until", "1"]
        environment = os.environ | {"PYTHONPATH": str(source)}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    found = re.search(r"seed (\d+) fails:\n +(.*)", done.stdout)
    return (0, "") if found is None else (int(found[1]) - first + 1, found[2])


def try_all(names: list[str], first: int, worlds: int) -> int:
    missed = 0
    for name in names or list(MISTAKES):
        after, by = tried(MISTAKES[name], first, worlds)
        said = f"noticed after {after} worlds: {by}" if after else f"NOT noticed in {worlds} worlds"
        print(f"{name}: {MISTAKES[name].what}\n  {said}", flush=True)
        missed += not after
    return missed
