"""What a kept stack held at one moment: documents by name and the bytes that they name, in one SQLite file.

A moment is written in one transaction, so whoever reads after a crash, or a power cut, sees the last whole one.
Bytes are kept once, by their digest, and go when no document names them any more.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from serving.errors import LocalStackError

FORMAT = 1
WAY_OUT = "start anew: streamhub local up --fresh"
# auto_vacuum gives the pages of what is deleted back to the disk; it must be set before there are tables
_TABLES = """
PRAGMA auto_vacuum = FULL;
CREATE TABLE IF NOT EXISTS documents (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS blobs (digest TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS moments (number INTEGER PRIMARY KEY, at_s REAL NOT NULL);
"""


def digest_of(body: bytes) -> str:
    """Give the name of some bytes."""
    return hashlib.sha256(body).hexdigest()


class Snapshot:
    """The last moment of one stack; the methods block, and every one opens the file anew, so any thread may call."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, documents: Mapping[str, str], blobs: Mapping[str, bytes], *, at_s: float) -> None:
        """Write a moment in place of the last one.

        Args:
            documents: everything that is not bytes.
            blobs: every byte string that a document names, by its digest.
            at_s: when it was, in seconds since the epoch.

        Raises:
            LocalStackError: the file cannot be written.

        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as database:
            known = {digest for (digest,) in database.execute("SELECT digest FROM blobs")}
            new = ((digest, body) for digest, body in blobs.items() if digest not in known)
            gone = ((digest,) for digest in known - blobs.keys())
            database.execute("DELETE FROM documents")
            database.executemany("INSERT INTO documents VALUES (?, ?)", documents.items())
            database.executemany("INSERT INTO blobs VALUES (?, ?)", new)
            database.executemany("DELETE FROM blobs WHERE digest = ?", gone)
            database.execute("INSERT INTO moments (at_s) VALUES (?)", (at_s,))
            database.execute("DELETE FROM moments WHERE number < (SELECT max(number) FROM moments)")

    def moment(self) -> tuple[int, float] | None:
        """Give the number of the last moment and when it was, None if there is none yet.

        Raises:
            LocalStackError: the file is no snapshot of this format.

        """
        if not self._path.exists():
            return None
        with self._open() as database:
            row = database.execute("SELECT number, at_s FROM moments").fetchone()
        return None if row is None else (int(row[0]), float(row[1]))

    def read(self) -> tuple[dict[str, str], dict[str, bytes]]:
        """Give documents and bytes of the last moment, each byte string held to its digest.

        Raises:
            LocalStackError: there is none, or it is damaged.

        """
        if self.moment() is None:
            raise LocalStackError(f"{self._path}: got no moment of a stack; {WAY_OUT}")
        with self._open() as database:
            documents = dict(database.execute("SELECT name, text FROM documents"))
            blobs: dict[str, bytes] = dict(database.execute("SELECT digest, body FROM blobs"))
        wrong = [digest for digest, body in blobs.items() if digest_of(body) != digest]
        if wrong:
            raise LocalStackError(f"{self._path}: got other bytes under digest {wrong[0][:12]}; {WAY_OUT}")
        return documents, blobs

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(sqlite3.connect(self._path)) as database:
                self._prepare(database)
                with database:
                    yield database
        except sqlite3.Error as error:
            raise LocalStackError(f"{self._path}: got no snapshot of a stack ({error}); {WAY_OUT}") from error

    def _prepare(self, database: sqlite3.Connection) -> None:
        [found] = database.execute("PRAGMA user_version").fetchone()
        if found not in {0, FORMAT}:
            raise LocalStackError(f"{self._path}: got format {found}; allowed: {FORMAT}; {WAY_OUT}")
        if found == 0:
            database.executescript(f"{_TABLES} PRAGMA user_version = {FORMAT};")
