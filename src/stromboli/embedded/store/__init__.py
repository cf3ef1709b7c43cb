"""Objects by key; every commit has the next resourceVersion; a window of history."""

from .history import History
from .object_store import Backend, Store
from .record import Change, Metadata, ObjectKey, Owner, Record, StorageError
from .sqlite import SqliteBackend

__all__ = [
    "Backend",
    "Change",
    "History",
    "Metadata",
    "ObjectKey",
    "Owner",
    "Record",
    "SqliteBackend",
    "StorageError",
    "Store",
]
