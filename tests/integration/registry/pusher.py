"""`python pusher.py`: for each JSON line on stdin, forks processes that use the registry; prints their exit states.

One process loads boto3 once, so that twenty killed pushes do not load it twenty times.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from serving.aws.registry import S3ModelRegistry
from serving.errors import RegistryError
from tests.fakes.registry import read_manifest, registry_at


def push_and_die(job: dict[str, Any]) -> None:
    url = f"{job['endpoint_url']}/_test/kill?pid={os.getpid()}&at={job['at']}"
    urllib.request.urlopen(urllib.request.Request(url, method="POST")).close()  # noqa: S310 - loopback
    manifest = read_manifest(Path(job["manifest"]))
    registry_at(job["endpoint_url"], job["bucket"]).push(Path(job["path"]), manifest, actor="killed")


def outcome(action: Callable[[], Any]) -> str:
    try:
        action()
    except RegistryError as error:
        return f"{type(error).__name__}: {error}"
    return "won"


def race(job: dict[str, Any]) -> None:
    writers: list[int] = job["writers"]
    shared = registry_at(job["endpoint_url"], job["bucket"], connections=len(writers))
    with ThreadPoolExecutor(len(writers)) as pool:
        outcomes = list(pool.map(lambda each: outcome(lambda: write(shared, job, each)), writers))
    Path(job["out"], f"{writers[0]}.json").write_text(json.dumps(dict(zip(writers, outcomes, strict=True))))


def write(shared: S3ModelRegistry, job: dict[str, Any], writer: int) -> None:
    if job["what"] == "alias":
        version = f"{writer % 2 + 1}.0.0"
        shared.move_alias(job["name"], "production", version, actor=f"writer-{writer}", reason="race")
        return
    path = Path(job["packages"], f"{writer}.model.tar.gz")
    shared.push(path, read_manifest(path.with_name(f"{writer}.manifest.json")), actor=f"writer-{writer}")


JOBS: dict[str, Callable[[dict[str, Any]], None]] = {"push": push_and_die, "race": race}


def fork(job: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        try:
            JOBS[job["job"]](job)
        except BaseException as error:  # noqa: BLE001 - a forked child must never return into the parent's loop
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return child


def main() -> None:
    for line in sys.stdin:
        children = [fork(job) for job in json.loads(line)]
        states = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        sys.stdout.write(json.dumps(states) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
