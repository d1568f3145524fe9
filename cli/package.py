"""`streamhub package`: one version, or with --lock all of them, as archive and manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import JsonFlag, emit
from cli.progress import progress_bar
from model_packaging.build import package, package_path, read_lock, write_lock
from model_packaging.manifest_file import manifest_path
from serving.spec.images import pinned_image
from serving.spec.load import load_model
from serving.spec.manifest import PackageManifest
from serving.spec.versions import newest, sorted_versions


def command(
    *,
    name: Annotated[str, typer.Argument(help="The model: a folder of models/.")],
    version: Annotated[str | None, typer.Option(help="Which version; the newest of the spec when left out.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Other weights: an ONNX file or a Hugging Face folder.")] = None,
    out: Annotated[Path, typer.Option(help="Where the files go.")] = Path("dist"),
    lock: Annotated[
        bool, typer.Option("--lock", help="Package every version (or --version V) and write model.lock.json.")
    ] = False,
    root: Annotated[Path, typer.Option(help="The project folder.")] = Path(),
    as_json: JsonFlag = False,
) -> None:
    """Check a version's files and build its archive and manifest; the same inputs give the same bytes."""
    if lock and weights is not None:
        raise typer.BadParameter("--lock names what the spec names; leave out --weights")
    spec = load_model(root, name)
    folder = root / "models" / name
    chosen = [version] if version is not None else sorted_versions(spec.versions) if lock else [newest(spec.versions)]
    image = pinned_image(spec)
    made: list[PackageManifest] = []
    for each in chosen:
        with progress_bar(f"{name} {each}") as report:
            made.append(
                package(spec, each, model_dir=folder, out_dir=out, image=image, weights=weights, progress=report)
            )
    rows = [_row(manifest, package_path(out, spec, manifest.version)) for manifest in made]
    if not lock:
        emit(rows[0], as_json=as_json, lines=[_line(rows[0])])
        return
    path = write_lock(folder, made, keep=read_lock(folder) if version is not None else {})
    emit({"lock": str(path), "versions": rows}, as_json=as_json, lines=[*map(_line, rows), f"lock: {path}"])


def _row(manifest: PackageManifest, path: Path) -> dict[str, object]:
    return {
        "name": manifest.name,
        "version": manifest.version,
        "path": str(path),
        "layout": manifest.layout,
        "manifest": str(manifest_path(path)),
        "sha256": manifest.archive_sha256,
        "size_bytes": manifest.size_bytes,
        "image": manifest.image,
        "files": [
            {"path": entry.path, "size_bytes": entry.size_bytes, "sha256": entry.sha256} for entry in manifest.files
        ],
    }


def _line(row: dict[str, object]) -> str:
    return f"{row['path']}  {row['size_bytes']} bytes  sha256 {row['sha256']}"
