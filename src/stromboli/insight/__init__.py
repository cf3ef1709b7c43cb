"""What people see of a cluster: one typed picture, and why a job waits.

The command line, the web page and reports all read the same picture, so they cannot disagree. It is made from objects,
whoever holds them: an API server, a simulation, a file. There is no I/O here, and no text layout.

picture       the types
inspection    objects in, picture out: the scheduler runs one cycle on a copy
queue_view, job_view, node_view, reservation_view
              the parts of a picture, from the scheduler's own books
written_reasons
              what is in the status of jobs, where the whole cluster may not be read
explanation   why one job waits, with all that is known about it
document      a picture as plain data, for JSON and YAML
recording     the events and decisions of a scheduler, as lines of a file
replay        decides a recording again, and compares
"""

from .explanation import Ahead, JobExplanation, KeptNode, NodeCount, Reason, explain
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
from .plain_picture import document
from .written_reasons import written_explanation, written_picture

__all__ = [
    "Ahead",
    "Amounts",
    "Inspection",
    "JobExplanation",
    "JobPicture",
    "KeptNode",
    "NamespacePicture",
    "NodeCount",
    "NodePicture",
    "Picture",
    "PodCounts",
    "QueuePicture",
    "Reason",
    "ReservationPicture",
    "State",
    "document",
    "explain",
    "inspect",
    "written_explanation",
    "written_picture",
]
