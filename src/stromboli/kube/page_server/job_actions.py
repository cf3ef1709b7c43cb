"""What the page can do with a Job, where it was started with --web-write: a Command, as `kubectl` would create it."""

from __future__ import annotations

from typing import Final

from stromboli.api import Command, Job, ObjectMeta, OwnerReference
from stromboli.kube.client import COMMANDS, Client

ACTIONS: Final = {"suspend": "AbortJob", "resume": "ResumeJob", "cancel": "TerminateJob"}


async def act_on_job(client: Client, job: Job, action: str) -> str:
    """Create the Command. Returns what to tell the user; raises Failure."""
    meta = job.metadata
    command = Command(
        metadata=ObjectMeta(generate_name=f"{meta.name[:40]}-{action}-", namespace=meta.namespace),
        action=ACTIONS[action],
        target=OwnerReference(
            api_version=job.api_version, kind=job.kind, name=meta.name, uid=meta.uid, controller=True
        ),
        reason="PageAction",
        message=f"Somebody chose {action} on the page.",
    )
    await client.create(COMMANDS, command, namespace=meta.namespace)
    return f"{ACTIONS[action]} was requested for {meta.namespace}/{meta.name}."
