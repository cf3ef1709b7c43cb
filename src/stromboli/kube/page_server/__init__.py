"""The page of a running cluster: what people see in a browser, live.

    reflectors ──▶ watched_objects ──▶ [thread: a cluster of its own, history, picture] ──▶ live_document
                                                                                               │ document_changes
    browser ◀── server-sent events ◀── http_server ◀───────────────────────────────────────────┘

It reads the cluster as any client could, so it works beside every API server, and nothing that schedules waits for it.
"""

from .component import PageComponent
from .http_server import PageOptions
from .outlook import WhatIf

__all__ = ["PageComponent", "PageOptions", "WhatIf"]
