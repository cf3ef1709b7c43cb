"""Fill nodes up before opening new ones, so that whole nodes stay free for large pods.

A node scores by how full it would be with the pod on it, averaged over the resources the pod asks for by their weights;
a node that one of them would overfill scores nothing. Only CPU, memory and the resources listed in the arguments
count, so that a cluster can pack by GPUs and leave its CPUs alone. The kernels do the reckoning, since it changes with
every placement.

    binpack.weight: 10                       times 0..100, beside what other plugins score; 0 switches binpack off
    binpack.cpu: 2                           one unless said otherwise; so is memory
    binpack.resources: nvidia.com/gpu, foo   others that count
    binpack.resources.nvidia.com/gpu: 7      and for how much
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
            return stated if stated >= 0 else 1.0  # Files of other schedulers have it so.

        listed = arguments.text("binpack.resources", "").split(",")
        others = [name for name in dict.fromkeys(item.strip() for item in listed) if name]
        weights = {"cpu": weight("binpack.cpu"), "memory": weight("binpack.memory")}
        weights |= {name: weight(f"binpack.resources.{name}") for name in others}
        self.score = ResourceScore(pack=weight("binpack.weight"), pack_weights=tuple(weights.items()))

    def open(self, session: Session) -> None:
        if self.score.pack:
            session.add_resource_score(self.score)
