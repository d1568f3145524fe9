"""Accepted asynchronous requests in one file until their answers lie in S3: what waits survives a restart.

At least once: a request whose service ends between its answer and the note of it runs again, and writes its answer to
the same place. SQLite keeps each change through a killed process; a power cut may take the last ones.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import orjson

from local.aws_json import Json

_SCHEMA = """
CREATE TABLE IF NOT EXISTS job (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, document BLOB, body BLOB
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One accepted request; `body` is None when it lies at `input_uri`."""

    id: str
    endpoint: str
    endpoint_created: float
    inference_id: str
    headers: Mapping[str, str]
    input_uri: str
    body: bytes | None
    output_uri: str
    failure_uri: str
    config: Json
    received_s: float
    ttl_s: float
    timeout_s: float


class Backlog:
    """The requests by their ids, oldest first; used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute(_SCHEMA)

    def close(self) -> None:
        """Close the file; what it holds stays."""
        self._database.close()

    def add(self, job: Job) -> None:
        """Keep a request; it is in the file when this returns."""
        document = {field.name: getattr(job, field.name) for field in fields(job) if field.name != "body"}
        self._database.execute(
            "INSERT INTO job (id, document, body) VALUES (?, ?, ?)",
            (job.id, orjson.dumps(document), job.body),
        )

    def remove(self, job: Job) -> None:
        """Forget a request that is done with."""
        self._database.execute("DELETE FROM job WHERE id = ?", (job.id,))

    def jobs(self) -> Iterator[Job]:
        """Give what is kept, in the order of its arrival."""
        rows = self._database.execute("SELECT document, body FROM job ORDER BY number").fetchall()
        for document, body in rows:
            yield Job(**orjson.loads(document), body=body)
