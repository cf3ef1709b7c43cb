"""What `kubectl explain` says about the fields of our kinds: one short sentence each.

The pages of the documentation say more. Types of Kubernetes inside our kinds, such as pod templates, are described by
the server's own documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from stromboli.api import (
    Command,
    DependsOn,
    Guarantee,
    GuaranteePercentage,
    Job,
    JobSpec,
    JobState,
    JobStatus,
    JobVolume,
    LifecyclePolicy,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueReservation,
    QueueSpec,
    QueueStatus,
    Reservation,
    ReservationOwner,
    ReservationSpec,
    ReservationStatus,
    TaskSpec,
)
from stromboli.api.kinds.batch import MigrationInfo, MigrationState

_UNUSED: Final = "Has no effect; it is accepted so that manifests written for Volcano work."
_CONDITIONS: Final = "What holds now, since when, and why."

DESCRIPTIONS: Final[Mapping[type[Struct], Mapping[str, str]]] = {
    Queue: {"spec": "The share of the cluster that the queue gets.", "status": "What the queue uses now."},
    QueueSpec: {
        "weight": "Queues divide what they request in proportion to their weights.",
        "capability": "The most that the queue may use, by resource.",
        "deserved": "What the queue deserves, by resource. Used by the plugin capacity instead of weights.",
        "guarantee": "What is kept for the queue, also while it does not use it.",
        "reclaimable": "Whether other queues may take back what this one uses beyond its deserved share.",
        "parent": "The parent in a tree of queues. Only leaves of the tree take pods.",
        "priority": "Queues with a higher number go first.",
        "dequeueStrategy": "fifo: no job starts before an earlier one of the queue. traverse: later jobs may start.",
        "type": _UNUSED, "extendClusters": _UNUSED, "affinity": _UNUSED,
    },
    Guarantee: {
        "resource": "The guaranteed amount, by resource.",
        "policy": "If set, whole nodes are locked for the queue, chosen in this way.",
        "percentage": "The guarantee as a part of the cluster's nodes.",
    },
    GuaranteePercentage: {
        "value": "From 0 to 1.",
        "dimensions": "Of which the part is taken.",
    },
    QueueStatus: {
        "state": "Open, Closed, Closing or Unknown. Only an open queue takes new jobs.",
        "pending": "PodGroups that wait to be admitted.",
        "inqueue": "PodGroups that are admitted and have not started.",
        "running": "PodGroups that run.",
        "completed": "PodGroups that have ended.",
        "unknown": "PodGroups in an unknown phase.",
        "allocated": "What the pods of the queue and of the queues below it use, by resource.",
        "reservation": "The nodes that are locked for the queue.",
        "conditions": _CONDITIONS,
    },
    QueueReservation: {
        "nodes": "The locked nodes.",
        "lockedAt": "When each of them was locked, by name.",
        "resource": "What is idle on them, by resource.",
        "guarantee": "The guarantee that was considered last.",
        "basis": "Which part of the guarantee counts: the amount or the percentage.",
        "evicting": "The locked node from which pods of other queues are evicted.",
    },
    PodGroup: {"spec": "What the pods of the group need to start.", "status": "How far the group is."},
    PodGroupSpec: {
        "minMember": "The number of pods that start together, or not at all.",
        "minTaskMember": "The number of pods of each role that start together.",
        "queue": "The queue of the group.",
        "priorityClassName": "The PriorityClass of the group.",
        "minResources": "What must be available before the group is admitted, by resource.",
        "networkTopology": _UNUSED, "subGroupPolicy": _UNUSED,
        "preemptable": _UNUSED,
        "migrationInfo": "The moves that the descheduler has planned for pods of the group.",
    },
    MigrationInfo: {
        "pod": "The pod that is moved.",
        "sourceNode": "The node where it runs.",
        "targetNode": "The node to which it moves.",
        "reservation": "The Reservation that keeps its place there.",
    },
    PodGroupStatus: {
        "phase": "Pending: not admitted yet. Inqueue: admitted. Running: its minimum runs.",
        "conditions": "Why it waits, since when, and whether it has waited too long.",
        "running": "Pods that run.", "succeeded": "Pods that succeeded.", "failed": "Pods that failed.",
        "migrationState": "How far the moves of its pods are.",
    },
    MigrationState: {
        "phase": "Pending, Running, Succeeded or Failed.",
        "reason": "Why, in one word.",
        "message": "Why, in a sentence.",
        "lastTransitionTime": "When the phase changed.",
    },
    Job: {"spec": "The tasks of the job, and what to do when something happens.", "status": "How far the job is."},
    JobSpec: {
        "schedulerName": "The scheduler that places its pods.",
        "minAvailable": "The number of pods that start together, or not at all; by default all of them.",
        "tasks": "The kinds of pods that the job has.",
        "policies": "What to do on events, for all tasks.",
        "plugins": "What the controller adds to the pods: env, svc, ssh, and those of frameworks.",
        "queue": "The queue of the job.",
        "maxRetry": "How often the job is restarted before it fails.",
        "minSuccess": "The job is complete when so many pods have succeeded.",
        "ttlSecondsAfterFinished": "The job is deleted so many seconds after it has ended.",
        "priorityClassName": "The PriorityClass of the job.",
        "volumes": "Volumes that are mounted into all its pods.",
        "runningEstimate": "How long its pods run, such as 10m. Used for backfill and for expected starts.",
        "networkTopology": _UNUSED,
    },
    JobVolume: {
        "mountPath": "Where it is mounted: an absolute path.",
        "volumeClaimName": "The claim, which exists.",
        "volumeClaim": "The spec of a claim that is created for the job, and deleted with it.",
    },
    TaskSpec: {
        "name": "The name of the task; part of the names of its pods.",
        "replicas": "The number of pods.",
        "minAvailable": "How many of them start together; by default all.",
        "template": "The pod template.",
        "policies": "What to do on events of this task; they come before those of the job.",
        "maxRetry": "How often a pod of the task is restarted.",
        "dependsOn": "The pods are created when these tasks have started.",
        "topologyPolicy": _UNUSED,
        "partitionPolicy": "How its pods are divided into partitions, each of which can be restarted by itself.",
    },
    LifecyclePolicy: {
        "action": "What to do, such as RestartJob, AbortJob or CompleteJob.",
        "event": "On which event, such as PodFailed.",
        "events": "On which events.",
        "exitCode": "On which exit code of a container, other than 0.",
        "timeout": "How long to wait before the action is taken.",
    },
    DependsOn: {"name": "The tasks.", "iteration": "any: one of them is enough. all: all of them."},
    JobStatus: {
        "state": "The phase of the job, since when, and why.",
        "minAvailable": "The number of pods that start together.",
        "taskStatusCount": "How many pods of each task are in each phase.",
        "pending": "Pods that wait.", "running": "Pods that run.", "succeeded": "Pods that succeeded.",
        "failed": "Pods that failed.", "terminating": "Pods that are being deleted.", "unknown": "Pods on lost nodes.",
        "retryCount": "How often the job was restarted.",
        "runningDuration": "How long it ran.",
        "version": "Counts restarts; pods of older versions are ignored.",
        "conditions": "The phases it went through, with their times.",
    },
    JobState: {
        "phase": "Such as Pending, Running, Completed, Failed or Aborted.",
        "reason": "Why, in one word.",
        "message": "Why, in a sentence.",
        "lastTransitionTime": "When the phase changed.",
    },
    Command: {
        "action": "What to do, such as AbortJob, ResumeJob, OpenQueue or CloseQueue.",
        "target": "The Job or the Queue.",
        "reason": "Why, in one word.",
        "message": "Why, in a sentence.",
    },
    Reservation: {"spec": "What is held, and for whom.", "status": "Where it is held, and how much is used."},
    ReservationSpec: {
        "template": "The pod template for which resources are held. With a priorityClassName it preempts.",
        "owners": "The pods that may use them; one match is enough.",
        "ttl": "The Reservation expires after this time, such as 1h.",
        "allocateOnce": "Whether it ends when the first pod has used it.",
        "queue": "The queue that is charged, and whose pods may use it; without one: default, and pods of any queue.",
        "nodeName": "The node; by default the scheduler chooses one.",
        "replaces": "The running pod, by UID, whose successor it is for. Only migrations have it.",
    },
    ReservationOwner: {
        "object": "This pod.",
        "controller": "Pods of this controller.",
        "labelSelector": "Pods with these labels.",
        "namespaces": "Pods in these namespaces. By default the namespace of the template.",
    },
    ReservationStatus: {
        "phase": "Pending, Waiting, Available, Succeeded, Failed or Expired.",
        "nodeName": "The node. While it is Pending: the one from which pods are evicted for it.",
        "allocatable": "What is held there, by resource.",
        "allocated": "What its owners use of it, by resource.",
        "currentOwners": "The pods that use it. Only pods in this list do; the scheduler adds one before it binds it.",
        "conditions": _CONDITIONS,
        "evictionTime": "When the descheduler decided to evict the pod that it replaces.",
    },
}  # fmt: skip
