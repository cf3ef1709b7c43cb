"""`migrationInfo` and `migrationState` of a PodGroup.

The list has a reference for each move of the last plan. The state is Pending until a place is kept, Running while any
move runs, and then Failed if one of them failed, else Succeeded. The group's phase is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stromboli.api import MigrationInfo, MigrationState, ObjectReference, PodGroup, Reservation, names
from stromboli.api.migration_reservations import Migration, migration_of
from stromboli.api.timestamps import format_timestamp

PENDING = "Pending"
RUNNING = "Running"
SUCCEEDED = "Succeeded"
FAILED = "Failed"


def planned(group: PodGroup, reservations: Sequence[Reservation], now: float) -> PodGroup:
    """The group when a plan for its pods is made. Entries of an earlier plan are replaced."""
    entries = [_entry(migration) for each in reservations if (migration := migration_of(each)) is not None]
    state = MigrationState(phase=PENDING, last_transition_time=format_timestamp(now))
    return replace(
        group,
        spec=replace(group.spec, migration_info=entries),
        status=replace(group.status, migration_state=state),
    )


def progressed(
    group: PodGroup,
    moves: Sequence[Migration],
    now: float,
    *,
    failure: tuple[str, str] | None = None,
    cooldown: float | None = None,
) -> PodGroup:
    """The group as its moves are now. `moves`: those that are not over; `failure`: reason and message of one that has
    just failed; `cooldown`: seconds that the group rests, if one is just over."""
    before = group.status.migration_state or MigrationState()
    reason, message = failure or (before.reason, before.message)
    if moves:
        waits = all(move.evicting_since is None and move.reservation.status.phase != "Available" for move in moves)
        phase = PENDING if waits and before.phase in ("", PENDING) else RUNNING
    else:
        phase = FAILED if reason else SUCCEEDED
    since = before.last_transition_time if before.phase == phase else format_timestamp(now)
    state = MigrationState(phase=phase, reason=reason, message=message, last_transition_time=since)
    known = {entry.reservation.uid or entry.reservation.name for entry in group.spec.migration_info}
    missing = [
        _entry(move) for move in moves if not {move.reservation.metadata.uid, move.reservation.metadata.name} & known
    ]
    metadata = group.metadata
    if cooldown:
        until = format_timestamp(now + cooldown)
        metadata = replace(metadata, annotations={**metadata.annotations, names.COOLDOWN_UNTIL: until})
    return replace(
        group,
        metadata=metadata,
        spec=replace(group.spec, migration_info=[*group.spec.migration_info, *missing]) if missing else group.spec,
        status=replace(group.status, migration_state=state),
    )


def is_unfinished(group: PodGroup) -> bool:
    state = group.status.migration_state
    return state is not None and state.phase in (PENDING, RUNNING)


def _entry(move: Migration) -> MigrationInfo:
    namespace, _, name = move.pod.rpartition("/")
    meta = move.reservation.metadata
    return MigrationInfo(
        pod=ObjectReference(kind="Pod", namespace=namespace, name=name, uid=move.uid),
        source_node=move.source,
        target_node=move.target,
        reservation=ObjectReference(kind="Reservation", name=meta.name, uid=meta.uid),
    )
