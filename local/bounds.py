"""What keeps a long-lived stack's folder from growing: bounded logs, and no archives that nothing serves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

MOST_LOG_BYTES = 8 << 20
"""A log may be twice as long for a moment: what it held goes to `NAME.log.1`, in place of what was there."""

LOOK_S = 30.0


def logs_of(state_dir: Path) -> Iterator[Path]:
    """Give every log of a stack: of services, of commands, of model servers."""
    yield from sorted((state_dir / "logs").glob("*.log"))
    yield from sorted((state_dir / "services").rglob("*.log"))


def bound_logs(state_dir: Path, *, most_bytes: int = MOST_LOG_BYTES) -> None:
    """Cut logs that are too long; whoever writes appends, so it goes on at the new end."""
    for log in logs_of(state_dir):
        try:
            if log.stat().st_size > most_bytes:
                shutil.copyfile(log, log.with_name(f"{log.name}.1"))
                with log.open("r+b") as file:
                    file.truncate(0)
        except FileNotFoundError:
            continue


def drop_unserved(services: Path) -> None:
    """Drop archives that the SageMaker of that folder does not name; for a stack that does not run."""
    store = services / "sagemaker.json"
    named = store.read_text(encoding="utf-8") if store.exists() else ""
    for archive in (services / "archives").glob("*"):
        if archive.name not in named:
            archive.unlink()


def bytes_of(folder: Path) -> int:
    """Give the size of all files below a folder."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total
