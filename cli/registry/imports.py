"""`streamhub registry import-mlflow`: a version that was trained and logged elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import JsonFlag, emit
from cli.progress import progress_bar
from cli.registry.options import Actor, Bucket, open_registry, plain, require_actor, version_line
from serving.spec.images import pinned_image
from serving.spec.load import load_model

app = typer.Typer()


@app.command("import-mlflow")
def import_mlflow(
    uri: Annotated[str, typer.Argument(help="models:/NAME/VERSION, models:/NAME@ALIAS, runs:/RUN/PATH or a folder.")],
    *,
    model: Annotated[str, typer.Option(help="The model of this project whose version it becomes.")],
    version: Annotated[str, typer.Option(help="Which version it becomes: X.Y.Z.")],
    bucket: Bucket,
    actor: Actor,
    tracking_uri: Annotated[
        str, typer.Option(envvar="MLFLOW_TRACKING_URI", help="The tracking server; it has the run's lineage.")
    ] = "",
    out: Annotated[Path, typer.Option(help="Where the package goes.")] = Path("dist"),
    root: Annotated[Path, typer.Option(help="The project folder.")] = Path(),
    as_json: JsonFlag = False,
) -> None:
    """Fetch an MLflow model (flavour onnx or pytorch), check it against the spec, package and push it."""
    from model_packaging.build import package_path  # noqa: PLC0415 - ONNX loads only for this command
    from model_packaging.mlflow_import import import_mlflow as packaged  # noqa: PLC0415 - as above

    require_actor(actor)
    spec = load_model(root, model)
    folder = root / "models" / model
    with progress_bar(f"{model} {version}") as progress:
        manifest = packaged(
            uri,
            spec,
            version,
            model_dir=folder,
            out_dir=out,
            image=pinned_image(spec),
            tracking_uri=tracking_uri,
        )
        path = package_path(out, spec, version)
        registered = open_registry(bucket).push(path, manifest, actor=actor, progress=progress)
    document = {**plain(registered), "path": str(path), "origin": plain(manifest.origin)}
    emit(document, as_json=as_json, lines=[version_line(registered)])
