"""Fill nodes up before opening new ones, so that whole nodes stay free for large pods.

The score of a node is how full it would be with the pod on it: the weighted mean over the resources that the pod
requests, and 0 if one of them would not fit. Only CPU, memory and the resources listed in the arguments count, so a
cluster can pack by GPUs and ignore CPUs. The kernels compute the score, because every placement changes it.

    binpack.weight: 10                       times 0..100, added to the scores of other plugins; 0 disables binpack
    binpack.cpu: 2                           the weight of CPU; 1 by default, as for memory
    binpack.resources: nvidia.com/gpu, foo   other resources that count
    binpack.resources.nvidia.com/gpu: 7      and their weights
"""

from __future__ import annotations

from stromboli.scheduling.callbacks import ResourceScore
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session


class Binpack(Plugin):
    name = "binpack"

    def __init__(self, arguments: Arguments) -> None:
        def weight(key: str) -> float:
            stated = arguments.number(key, 1)
            return stated if stated >= 0 else 1.0  # as Volcano does, so that its files remain valid

        listed = arguments.text("binpack.resources", "").split(",")
        others = [name for name in dict.fromkeys(item.strip() for item in listed) if name]
        weights = {"cpu": weight("binpack.cpu"), "memory": weight("binpack.memory")}
        weights |= {name: weight(f"binpack.resources.{name}") for name in others}
        self.score = ResourceScore(pack=weight("binpack.weight"), pack_weights=tuple(weights.items()))

    def open(self, session: Session) -> None:
        if self.score.pack:
            session.add_resource_score(self.score)
