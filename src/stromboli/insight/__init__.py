"""What people see of a cluster: one typed picture, and why a job waits.

The command line, the web page and reports all read the same picture, so they cannot disagree. It is made from objects,
whoever holds them: an API server, a simulation, a file. There is no I/O here, and no text layout.

picture       the types
inspection    objects in, picture out: the scheduler runs one cycle on a copy
queue_view, job_view, node_view, reservation_view
              the parts of a picture, from the scheduler's own books
document      a picture as plain data, for JSON and YAML
"""

from .document import document
from .inspection import Inspection, State, inspect
from .picture import (
    Amounts,
    JobPicture,
    NamespacePicture,
    NodePicture,
    Picture,
    PodCounts,
    QueuePicture,
    ReservationPicture,
)

__all__ = [
    "Amounts",
    "Inspection",
    "JobPicture",
    "NamespacePicture",
    "NodePicture",
    "Picture",
    "PodCounts",
    "QueuePicture",
    "ReservationPicture",
    "State",
    "document",
    "inspect",
]
