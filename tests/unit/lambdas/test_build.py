"""Lambda folders: what is in them, that it imports, and that the same inputs give the same bytes."""

from __future__ import annotations

import ast
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from lambdas.build import REQUIREMENTS, build, locked_requirements
from serving.errors import PackagingError, SpecError
from serving.spec.bundle import read_bundle

# the packages by the name they are imported under
IMPORTED_AS = {"cattrs": "cattrs", "numpy": "numpy", "orjson": "orjson", "pillow": "PIL", "valkey": "valkey"}
BY_RUNTIME = {"boto3", "botocore"}


@pytest.fixture(name="project")
def project_fixture(tmp_path: Path, root: Path) -> Path:
    """Make a project of one model with the real core and three functions that say which they are."""
    project = tmp_path / "project"
    (project / "lambdas").mkdir(parents=True)
    (project / "lambdas" / "__init__.py").write_text('"""."""\n')
    for name in REQUIREMENTS:
        folder = project / "lambdas" / name
        folder.mkdir()
        (folder / "__init__.py").write_text('"""."""\n')
        (folder / "handler.py").write_text(
            "from serving.spec.bundle import read_bundle\n"
            "from pathlib import Path\n"
            "def handler(event, context):\n"
            f"    return {{'function': {name!r}, 'models': list(read_bundle(Path.cwd()).models)}}\n"
        )
    (project / "serving").symlink_to(root / "serving")
    shutil.copytree(root / "models" / "recommendation_ranker", project / "models" / "recommendation_ranker")
    return project


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_each_function_gets_the_core_itself_and_no_other_function(project: Path, tmp_path: Path) -> None:
    out = build(target="local", out=tmp_path / "out", root=project)
    for name in REQUIREMENTS:
        assert sorted(path.name for path in (out / name / "lambdas").iterdir()) == ["__init__.py", name]
        assert (out / name / "serving" / "spec" / "load.py").is_file()


def test_the_model_server_stays_out(project: Path, tmp_path: Path) -> None:
    out = build(target="local", out=tmp_path / "out", root=project)
    assert (project / "serving" / "runtime").is_dir()
    assert not (out / "predict" / "serving" / "runtime").exists()


def test_specs_travel_as_json_that_reads_back(project: Path, tmp_path: Path) -> None:
    out = build(target="local", out=tmp_path / "out", root=project)
    assert list(read_bundle(out / "drift").models) == ["recommendation_ranker"]


def test_a_local_folder_runs_with_the_packages_of_this_interpreter(project: Path, tmp_path: Path) -> None:
    out = build(target="local", out=tmp_path / "out", root=project)
    code = "import orjson,sys; sys.path.insert(0,'.'); from lambdas.release.handler import handler as h; "
    done = subprocess.run(
        [sys.executable, "-c", code + "sys.stdout.buffer.write(orjson.dumps(h({}, None)))"],
        cwd=out / "release",
        capture_output=True,
        check=True,
    )
    assert orjson.loads(done.stdout) == {"function": "release", "models": ["recommendation_ranker"]}


def test_building_twice_gives_the_same_bytes_times_and_modes(project: Path, tmp_path: Path) -> None:
    first = build(target="local", out=tmp_path / "first", root=project)
    (project / "lambdas" / "predict" / "__pycache__").mkdir()
    (project / "lambdas" / "predict" / "__pycache__" / "handler.cpython-311.pyc").write_bytes(b"left by a run")
    second = build(target="local", out=tmp_path / "second", root=project)
    assert digests(first) == digests(second)
    stats = {(path.stat().st_mtime, oct(path.stat().st_mode)) for path in second.rglob("*.py")}
    assert stats == {(315_532_800.0, "0o100644")}


def test_a_second_build_leaves_nothing_of_the_first(project: Path, tmp_path: Path) -> None:
    out = build(target="local", out=tmp_path / "out", root=project)
    (out / "predict" / "stale.py").write_text("")
    build(target="local", out=out, root=project)
    assert not (out / "predict" / "stale.py").exists()
    assert sorted(path.name for path in out.iterdir()) == sorted(REQUIREMENTS)


def test_a_function_without_handler_is_refused(project: Path, tmp_path: Path) -> None:
    (project / "lambdas" / "drift" / "handler.py").unlink()
    with pytest.raises(PackagingError, match=r"function 'drift'.*handler\.py"):
        build(target="local", out=tmp_path / "out", root=project)


def test_wrong_specs_are_refused_before_anything_is_written(project: Path, tmp_path: Path) -> None:
    (project / "models" / "recommendation_ranker" / "model.toml").write_text("name = 3\n")
    with pytest.raises(SpecError):
        build(target="local", out=tmp_path / "out", root=project)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("function", sorted(REQUIREMENTS))
def test_what_a_function_takes_is_pinned_and_hashed_and_no_more_than_the_table_says(function: str, root: Path) -> None:
    text = locked_requirements(function, root=root)
    names = re.findall(r"^([a-z0-9-]+)==\S+", text, flags=re.MULTILINE)
    assert set(REQUIREMENTS[function]) <= set(names)
    assert not {"boto3", "rich", "typer", "starlette", "onnxruntime"} & set(names)
    assert "valkey" in names or function != "predict"
    assert "valkey" not in names or function == "predict"
    assert text.count("--hash=sha256:") >= len(names)


def test_only_the_api_function_carries_images_and_cache() -> None:
    assert {name for name, wheels in REQUIREMENTS.items() if "pillow" in wheels} == {"predict"}


def test_the_projects_own_functions_find_all_of_our_code_in_their_folders(root: Path, tmp_path: Path) -> None:
    out = build(target="local", out=tmp_path / "out", root=root)
    code = (
        "import importlib, pathlib, sys\n"
        "sys.path.insert(0, '.')\n"
        "importlib.import_module(sys.argv[1])\n"
        "ours = [m for name, m in sys.modules.items() if name.split('.')[0] in ('serving', 'lambdas')]\n"
        "print(sorted({str(pathlib.Path(m.__file__).is_relative_to(pathlib.Path.cwd())) for m in ours if m.__file__}))"
    )
    for function in REQUIREMENTS:
        done = subprocess.run(
            [sys.executable, "-c", code, f"lambdas.{function}.handler"],
            cwd=out / function,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout.strip(), done.stderr) == ("['True']", "")


@pytest.mark.parametrize("function", sorted(REQUIREMENTS))
def test_a_function_imports_only_what_its_folder_or_the_runtime_has(function: str, root: Path) -> None:
    handler = root / "lambdas" / function / "handler.py"
    third_party = set(third_party_imports(root, handler))
    assert third_party <= {IMPORTED_AS[name] for name in REQUIREMENTS[function]} | BY_RUNTIME


def third_party_imports(root: Path, start: Path) -> Iterator[str]:
    """Walk imports at module level from a handler through our sources; give the packages that are not ours."""
    seen: set[Path] = set()
    queue = [start]
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        for module in module_level_imports(ast.parse(path.read_text())):
            top = module.split(".")[0]
            if top in {"serving", "lambdas"}:
                queue += our_files(root, module)
            elif top not in sys.stdlib_module_names:
                yield top


def module_level_imports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def our_files(root: Path, module: str) -> list[Path]:
    base = root / Path(*module.split("."))
    packages = [parent / "__init__.py" for parent in (base, *base.parents) if parent.is_relative_to(root)]
    return [path for path in (base.with_suffix(".py"), *packages) if path.is_file()]
