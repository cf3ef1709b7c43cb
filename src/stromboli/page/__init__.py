"""What people look at: the document that pictures are drawn from, and the browser code that draws them.

The report of a simulation and the page of a running cluster show the same pictures. Both make a `Document`; the browser
code in `assets` draws it and knows nothing else. The code is plain JavaScript without a build step: the page serves the
files as they are, and the report has them all in one file (`self_contained`).
"""

from .assets_on_disk import ASSETS, asset
from .document import (
    Amounts,
    Document,
    Eviction,
    JobRow,
    JobState,
    Mark,
    Migration,
    NamespaceRow,
    NodeRow,
    QueueRow,
    ResourceSeries,
    Series,
    Span,
    encode_document,
    encode_json,
)
from .merged_spans import merged_spans
from .self_contained import self_contained
from .step_functions import MOST_POINTS, StepFunction, thinned

__all__ = [
    "ASSETS",
    "MOST_POINTS",
    "Amounts",
    "Document",
    "Eviction",
    "JobRow",
    "JobState",
    "Mark",
    "Migration",
    "NamespaceRow",
    "NodeRow",
    "QueueRow",
    "ResourceSeries",
    "Series",
    "Span",
    "StepFunction",
    "asset",
    "encode_document",
    "encode_json",
    "merged_spans",
    "self_contained",
    "thinned",
]
