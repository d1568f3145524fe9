"""What the next `up` finds in a folder: a record that fits, or one line that says what does not and the way out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from local import images, kept
from local.bounds import bound_logs, drop_unserved
from local.checkpoints import Checkpoints, bring_back
from local.inputs import digest_of_inputs
from local.kept import Kept
from local.listener import bind, refuse_taken, settled_port
from local.snapshot import Snapshot, digest_of
from local.state import clock_file
from local.tail import follow_lines, last_lines, named_logs
from serving.aws.clock import StackTime, write
from serving.errors import LocalStackError

WAY_OUT = r"start anew: streamhub local up --fresh$"
PORTS = {"gateway": 23001, "valkey": 23002, "support": 23003, "api": 23004}
RECORD = Kept(made_by=kept.made_by(), ports=PORTS, inputs="abc")


def test_a_record_is_read_as_it_was_written_and_a_folder_without_one_has_none(tmp_path: Path) -> None:
    assert kept.read(tmp_path) is None
    kept.write(tmp_path, RECORD)
    assert kept.read(tmp_path) == RECORD


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"format": 9}', '{"format": 1, "ports": {}}', '{"format": 1, "made_by": 1, "ports": 2}'],
)
def test_a_record_that_is_none_is_refused_with_the_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / kept.FOLDER).mkdir()
    (tmp_path / kept.FOLDER / "stack.json").write_text(text)
    with pytest.raises(LocalStackError, match=WAY_OUT):
        kept.read(tmp_path)


@pytest.mark.parametrize("package", sorted(kept.made_by()))
def test_a_stack_of_another_version_is_refused_by_its_name(tmp_path: Path, package: str) -> None:
    kept.write(tmp_path, replace(RECORD, made_by={**RECORD.made_by, package: "0.0.7"}))
    with pytest.raises(LocalStackError, match=rf"got a stack of {package} 0\.0\.7; allowed: .*{WAY_OUT}"):
        kept.read(tmp_path)


def test_a_port_that_is_taken_or_another_one_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with bind(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LocalStackError, match=rf"gateway: port {port}, .* in use by another process.*{WAY_OUT}"):
            refuse_taken({"gateway": port}, asked={"gateway": 0}, state_dir=tmp_path)
    with pytest.raises(LocalStackError, match=rf"gateway: got port 5; allowed: {port}.*{WAY_OUT}"):
        refuse_taken({"gateway": port}, asked={"gateway": 5}, state_dir=tmp_path)
    refuse_taken({"gateway": port}, asked={"gateway": port}, state_dir=tmp_path)


def test_the_ports_of_a_kept_stack_are_none_that_linux_gives_to_connections() -> None:
    first, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert settled_port() < int(first)


class Memory:
    """Held in a dictionary."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self.blobs: dict[str, bytes] = {}
        self.busy = False

    def changes(self) -> bool:
        return self.busy

    def capture(self) -> tuple[dict[str, str], dict[str, bytes]]:
        return dict(self.held), dict(self.blobs)

    def restore(self, documents: Mapping[str, str], blobs: Mapping[str, bytes]) -> None:
        self.held, self.blobs = dict(documents), dict(blobs)


def test_memory_and_files_come_back_as_of_one_moment_but_the_clock_does_not(tmp_path: Path) -> None:
    services, memory = tmp_path / "services", Memory()
    services.mkdir()
    snapshot = Snapshot(tmp_path / "s.sqlite")
    memory.held, memory.blobs = {"s3": "one"}, {digest_of(b"x"): b"x"}
    (services / "sagemaker.json").write_text("one")
    (services / "clock.json").write_text("one")
    checkpoints = Checkpoints(memory, folder=services, snapshot=snapshot, keeps=True)
    assert asyncio.run(checkpoints.take())
    (services / "sagemaker.json").write_text("two")
    (services / "younger.json").write_text("two")
    (services / "clock.json").write_text("two")
    other = Memory()
    bring_back(other, folder=services, snapshot=snapshot)
    assert (other.held, other.blobs) == ({"s3": "one"}, {digest_of(b"x"): b"x"})
    assert {file.name: file.read_text() for file in services.iterdir()} == {
        "sagemaker.json": "one",
        "clock.json": "two",
    }


def test_no_moment_is_taken_while_a_stack_is_being_changed(tmp_path: Path) -> None:
    memory, snapshot = Memory(), Snapshot(tmp_path / "s.sqlite")
    checkpoints = Checkpoints(memory, folder=tmp_path, snapshot=snapshot, keeps=True)
    asyncio.run(checkpoints.take())
    before = snapshot.moment()
    memory.busy, memory.held = True, {"half": "done"}
    assert not asyncio.run(checkpoints.take())
    asyncio.run(checkpoints.end())
    assert snapshot.moment() == before


def test_a_moment_that_is_asked_for_while_one_is_written_is_taken_after_it(tmp_path: Path) -> None:
    class Slow(Snapshot):
        """Has something happen while it writes; who sees it asks for a moment, as a stack that was deployed does."""

        def write(self, documents: Mapping[str, str], blobs: Mapping[str, bytes], *, at_s: float) -> None:
            super().write(documents, blobs, at_s=at_s)
            if memory.held["s3"] == "deploying":
                memory.held = {"s3": "deployed"}
                loop.call_soon_threadsafe(checkpoints.ask)
            else:
                loop.call_soon_threadsafe(written.set)

    memory, snapshot = Memory(), Slow(tmp_path / "s.sqlite")
    memory.held = {"s3": "deploying"}
    checkpoints = Checkpoints(memory, folder=tmp_path, snapshot=snapshot, keeps=False)
    loop, written = asyncio.new_event_loop(), asyncio.Event()

    async def takes() -> None:
        checkpoints.ask()
        running = asyncio.create_task(checkpoints.run())
        await asyncio.wait_for(written.wait(), 10)
        running.cancel()

    loop.run_until_complete(takes())
    loop.close()
    assert snapshot.read()[0]["s3"] == "deployed"


def test_a_moment_is_dated_before_anything_of_it_is_looked_at(tmp_path: Path) -> None:
    """Who asks at a time, and finds a moment of that time or later, has in it all that was there when it asked."""
    looked: list[float] = []

    class Watched(Memory):
        def capture(self) -> tuple[dict[str, str], dict[str, bytes]]:
            looked.append(time.time())
            return super().capture()

    snapshot = Snapshot(tmp_path / "s.sqlite")
    asyncio.run(Checkpoints(Watched(), folder=tmp_path, snapshot=snapshot, keeps=True).take())
    found = snapshot.moment()
    assert found is not None
    assert found[1] <= looked[0]


def stack_of(state_dir: Path, *, ports: Mapping[str, int]) -> None:
    for name in ("cdk.out", "lambdas"):
        (state_dir / name).mkdir(parents=True)
        (state_dir / name / "file").write_text(name)
    documents = {
        "sqs": f'"http://127.0.0.1:{ports["gateway"]}/queue"',
        "elasticache": f'{{"Address": "127.0.0.1", "Port": {ports["valkey"]}, "Endpoint.Port": "{ports["valkey"]}"}}',
        "ours/sagemaker.json": f'{{"path":"{state_dir}/services/archives/x"}}',
        "s3": f'{{"size": {ports["gateway"]}}}',
    }
    kept.snapshot_of(state_dir).write(documents, {}, at_s=0)


def test_an_image_has_the_addresses_and_folders_of_the_stack_that_starts_from_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    stack_of(first, ports=PORTS)
    images.make(tmp_path, "digest", first, ports=PORTS)
    image = images.find(tmp_path, "digest")
    assert image is not None
    second.mkdir()
    assert images.unpack(image, second, ports={"gateway": 24001, "valkey": 24002, "support": 0, "api": 0})
    assert (second / "cdk.out" / "file").read_text() == "cdk.out"
    documents, _ = kept.snapshot_of(second).read()
    assert documents == {
        "sqs": '"http://127.0.0.1:24001/queue"',
        "elasticache": '{"Address": "127.0.0.1", "Port": 24002, "Endpoint.Port": "24002"}',
        "ours/sagemaker.json": f'{{"path":"{second}/services/archives/x"}}',
        "s3": '{"size": 23001}',
    }
    assert kept.read(second) is None, "what starts from an image is not kept unless it is asked for"


def test_a_stack_that_is_ahead_of_the_machines_time_gives_no_image(tmp_path: Path) -> None:
    for name, pace, offset_s in (
        ("same", 1.0, 0.0),
        ("behind", 1.0, -60.0),
        ("fast", 240.0, 0.0),
        ("moved", 1.0, 60.0),
    ):
        stack_of(tmp_path / name, ports=PORTS)
        wall_s = time.time() - 10
        moved = StackTime.started(pace=pace, wall_s=wall_s).moved_to(offset_s, wall_s=wall_s)
        write(clock_file(tmp_path / name), moved)
        images.make(tmp_path, name, tmp_path / name, ports=PORTS)
    assert sorted(path.name for path in (tmp_path / images.FOLDER).iterdir()) == ["behind", "same"]


def test_a_damaged_image_is_dropped_and_the_stack_starts_without(tmp_path: Path) -> None:
    stack_of(tmp_path / "first", ports=PORTS)
    images.make(tmp_path, "digest", tmp_path / "first", ports=PORTS)
    image = images.find(tmp_path, "digest")
    assert image is not None
    [database] = image.rglob("*.sqlite")
    database.write_bytes(b"nonsense" * 1000)
    second = tmp_path / "second"
    second.mkdir()
    assert not images.unpack(image, second, ports=PORTS)
    assert list(second.iterdir()) == []
    assert images.find(tmp_path, "digest") is None


def test_two_images_are_kept_and_the_one_that_was_used_last_stays(tmp_path: Path) -> None:
    for name in ("a", "b"):
        stack_of(tmp_path / name, ports=PORTS)
        images.make(tmp_path, name, tmp_path / name, ports=PORTS)
    image = images.find(tmp_path, "a")
    assert image is not None
    (tmp_path / "user").mkdir()
    assert images.unpack(image, tmp_path / "user", ports=PORTS)
    stack_of(tmp_path / "c", ports=PORTS)
    images.make(tmp_path, "c", tmp_path / "c", ports=PORTS)
    assert sorted(path.name for path in (tmp_path / images.FOLDER).iterdir()) == ["a", "c"]


def test_any_change_of_an_input_changes_the_digest_and_bytecode_does_not(tmp_path: Path) -> None:
    (tmp_path / "infra" / "__pycache__").mkdir(parents=True)
    digests = []
    for name, text in [("app.py", "1"), ("infra/a.py", "1"), ("infra/a.py", "2"), ("infra/b.py", "2")]:
        (tmp_path / name).write_text(text)
        digests.append(digest_of_inputs(tmp_path))
    (tmp_path / "infra/b.py").rename(tmp_path / "infra/c.py")
    digests.append(digest_of_inputs(tmp_path))
    assert len(set(digests)) == len(digests)
    (tmp_path / "infra" / "__pycache__" / "a.pyc").write_text("x")
    (tmp_path / "README.md").write_text("x")
    assert digest_of_inputs(tmp_path) == digests[-1]


def test_a_long_log_is_cut_and_its_writer_goes_on_at_the_new_end(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "gateway.log"
    log.parent.mkdir()
    with log.open("ab") as writer:
        writer.write(b"old\n" * 100)
        writer.flush()
        bound_logs(tmp_path, most_bytes=100)
        writer.write(b"new\n")
    assert log.read_bytes() == b"new\n"
    assert (tmp_path / "logs" / "gateway.log.1").read_bytes() == b"old\n" * 100


def test_archives_that_nothing_serves_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "archives").mkdir()
    for name in ("served.tar.gz", "old.tar.gz"):
        (tmp_path / "archives" / name).write_bytes(b"x")
    (tmp_path / "sagemaker.json").write_bytes(orjson.dumps({"deployments": {"e": {"path": "archives/served.tar.gz"}}}))
    drop_unserved(tmp_path)
    assert [path.name for path in (tmp_path / "archives").iterdir()] == ["served.tar.gz"]


def test_logs_are_shown_by_name_from_their_end_and_followed_by_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "gateway.log"
    log.parent.mkdir()
    log.write_text("one\ntwo\nthree\n")
    assert named_logs(tmp_path, "gateway") == named_logs(tmp_path, "") == [log]
    assert last_lines(log, count=2) == ["two", "three"]
    assert last_lines(log, count=0) == []
    followed = follow_lines([log])
    for text, line in [("four\nfi", "four"), ("ve\n", "five")]:
        with log.open("a") as file:
            file.write(text)
        assert next(followed) == (log, line)
    log.write_text("six\n")  # it was cut
    assert next(followed) == (log, "six")
    with pytest.raises(LocalStackError, match="log: got nothing-such; allowed: gateway"):
        named_logs(tmp_path, "nothing-such")
