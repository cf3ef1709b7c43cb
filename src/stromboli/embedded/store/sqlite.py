"""Objects in a SQLite file, so that they survive the process.

Write-ahead logging: a commit appends to the log, and a reader of the file sees whole commits only. A process that is
killed at any instant loses nothing that was committed. A machine that loses power may lose the last commits, never the
file; one that must not lose those either is a cluster.

A write that fails, because the disk is full, changes nothing: it is refused, and the next one is tried as any other.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stromboli.errors import UserError
from stromboli.files import check_secret

from .record import ObjectKey, StorageError

_log = logging.getLogger("stromboli.embedded")

_FORMAT: Final = 1
_BESIDE: Final = ("-wal", "-shm", "-journal")  # files that SQLite makes, and believes
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY CHECK (id = 0), version INTEGER NOT NULL);
INSERT OR IGNORE INTO counter VALUES (0, 1);
"""


class SqliteBackend:
    """One process at a time may use a file."""

    def __init__(self, path: Path) -> None:
        # Secrets are in there: readable by the owner alone, as are the files that SQLite makes beside it.
        self._path = path
        self._fails = False  # the last write did
        for file in (path, *(path.with_name(path.name + suffix) for suffix in _BESIDE)):
            check_secret(file)
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}") from None
        self._connection = sqlite3.connect(path, isolation_level=None)
        try:
            self._prepare(path)
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise UserError(f"{path} {_problem(error)}.") from None
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, path: Path) -> None:
        run = self._connection.execute
        # The lock is taken by the first statement that touches the file, and kept.
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        (found,) = run("PRAGMA user_version").fetchone()
        if found not in (0, _FORMAT):
            raise UserError(f"{path} was written by a newer version (format {found}); this one reads {_FORMAT}.")
        run("BEGIN IMMEDIATE")
        for statement in _TABLES.split(";"):
            run(statement)
        run(f"PRAGMA user_version = {_FORMAT}")
        run("COMMIT")

    def load(self) -> tuple[int, Iterator[tuple[ObjectKey, int, bytes]]]:
        (version,) = self._connection.execute("SELECT version FROM counter").fetchone()
        rows = self._connection.execute("SELECT resource, namespace, name, version, data FROM objects").fetchall()
        version = max([version, *(row[3] for row in rows)])
        return version, ((ObjectKey(*row[:3]), row[3], row[4]) for row in rows)

    def write(self, key: ObjectKey, version: int, data: bytes | None) -> None:
        try:
            self._write(key, version, data)
        except sqlite3.Error as error:
            problem = f"{self._path} cannot be written: {error}"
            if not self._fails:
                _log.error("%s; changes are refused until it can be; nothing that was acknowledged is lost", problem)
            self._fails = True
            raise StorageError(problem) from None
        if self._fails:
            self._fails = False
            _log.warning("%s can be written again", self._path)

    def _write(self, key: ObjectKey, version: int, data: bytes | None) -> None:
        run = self._connection.execute
        if data is not None:
            # One statement, which is a transaction. The version is in the row; the counter is for deletions.
            run("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", (*key, version, data))
            return
        run("BEGIN")
        try:
            run("DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?", key)
            run("UPDATE counter SET version = ?", (version,))
            run("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise

    def check(self) -> str:
        """What SQLite says about the file: "ok" if it is intact."""
        (answer,) = self._connection.execute("PRAGMA integrity_check").fetchone()
        return str(answer)

    def close(self) -> None:
        self._connection.close()


def _problem(error: sqlite3.Error) -> str:
    """Why a file cannot be opened."""
    match error.sqlite_errorcode & 0xFF:  # the higher bits are details
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return "is in use by another process"
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return f"is not a data file of ours: {error}"
    return f"cannot be used: {error}"
