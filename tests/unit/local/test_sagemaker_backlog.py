from __future__ import annotations

from pathlib import Path

from local.sagemaker.backlog import Backlog, Job


def job(number: int, *, body: bytes | None = b"\x00\xff") -> Job:
    return Job(
        id=f"id-{number}",
        endpoint="e",
        endpoint_created=1.25,
        inference_id="mine",
        headers={"content-type": "text/csv"},
        input_uri="" if body is not None else "s3://b/in",
        body=body,
        output_uri=f"s3://b/out/{number}",
        failure_uri="",
        config={"OutputConfig": {"S3OutputPath": "s3://b/out"}},
        received_s=1.5,
        ttl_s=60,
        timeout_s=900,
    )


def reopened(backlog: Backlog, path: Path) -> list[Job]:
    backlog.close()
    again = Backlog(path)
    found = list(again.jobs())
    again.close()
    return found


def test_what_is_added_is_there_again_in_order_and_byte_for_byte(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path / "async.sqlite")
    jobs = [job(3), job(1, body=None), job(2, body=b"")]
    for each in jobs:
        backlog.add(each)
    assert reopened(backlog, tmp_path / "async.sqlite") == jobs


def test_what_is_removed_is_gone_and_nothing_else(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path / "async.sqlite")
    for each in (job(1), job(2), job(3), job(4)):
        backlog.add(each)
    backlog.remove(job(2))
    backlog.remove(job(2))
    backlog.remove(job(3))
    assert [each.id for each in reopened(backlog, tmp_path / "async.sqlite")] == ["id-1", "id-4"]


def test_a_process_that_is_killed_leaves_what_it_accepted(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path / "async.sqlite")
    backlog.add(job(1))
    # another connection sees what the first has written, though that one never closes
    assert [each.id for each in Backlog(tmp_path / "async.sqlite").jobs()] == ["id-1"]
