"""Which pods' leaving is already accounted for.

A pod can be heard to leave twice: when it is evicted, and again when its grace period is over and the
object goes. And a controller that deletes a pod itself will hear of it as of any other. Only the first news
of a departure nobody arranged is news; this memory tells them apart. It holds a pod for as long as the
pod's object exists, so it does not grow, and losing it in a restart costs at most one departure taken for
news again.
"""

from __future__ import annotations

from stromboli.api import Pod, key

from .changes import Objects


class Departures:
    def __init__(self) -> None:
        self._keys_by_uid: dict[str, str] = {}

    def expect(self, pod: Pod) -> None:
        self._keys_by_uid[pod.metadata.uid] = key(pod)

    def is_news(self, pod: Pod) -> bool:
        """Whether nobody expected this pod to go. From now on everybody does."""
        if pod.metadata.uid in self._keys_by_uid:
            return False
        self.expect(pod)
        return True

    def forget_gone(self, objects: Objects) -> None:
        gone = []
        for uid, pod_key in self._keys_by_uid.items():
            pod = objects.get(Pod, pod_key)
            if pod is None or pod.metadata.uid != uid:
                gone.append(uid)
        for uid in gone:
            del self._keys_by_uid[uid]
