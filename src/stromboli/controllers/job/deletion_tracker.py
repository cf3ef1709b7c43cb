"""Which deletions of pods a controller already knows of.

A deletion may be reported twice: when the pod is evicted, and again when its grace period is over and the object goes.
And a controller that deletes a pod itself gets the same reports. Only the first report of a deletion that the
controller did not ask for matters; the tracker tells them apart. It remembers a pod while its object exists, so it does
not grow. Losing it in a restart costs at most one deletion that is counted again.
"""

from __future__ import annotations

from stromboli.api import Pod, key
from stromboli.controllers.changes import Objects


class DeletionTracker:
    def __init__(self) -> None:
        self._keys_by_uid: dict[str, str] = {}

    def expect_deletion(self, pod: Pod) -> None:
        self._keys_by_uid[pod.metadata.uid] = key(pod)

    def is_unexpected(self, pod: Pod) -> bool:
        """Whether this deletion was neither expected nor reported before. From now on it is expected."""
        if pod.metadata.uid in self._keys_by_uid:
            return False
        self.expect_deletion(pod)
        return True

    def prune(self, objects: Objects) -> None:
        """Forget pods whose objects no longer exist."""
        gone = []
        for uid, pod_key in self._keys_by_uid.items():
            pod = objects.get(Pod, pod_key)
            if pod is None or pod.metadata.uid != uid:
                gone.append(uid)
        for uid in gone:
            del self._keys_by_uid[uid]
