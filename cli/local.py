"""`streamhub local`: SageMaker on this machine: up, status, down."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.output import JsonFlag, emit, progress_console
from cli.rehearsal.command import rehearse

if TYPE_CHECKING:
    from local.faults import Faults

app = typer.Typer(no_args_is_help=True)
fault_app = typer.Typer(no_args_is_help=True)
app.add_typer(fault_app, name="fault", help="What the stack shall do wrong.")
app.command()(rehearse)

State = Annotated[Path, typer.Option(help="Folder of the stack's state and logs.")]
Root = Annotated[Path, typer.Option(help="The project folder.")]
_STATE = Path(".streamhub/local")


@app.command()
def up(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Loopback port of AWS; 0 takes a free one.")] = 0,
    api_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Loopback port of the prediction API; 0 takes a free one.")
    ] = 0,
    scale: Annotated[
        bool, typer.Option("--scale", help="Let Application Auto Scaling change counts by load; else it remembers.")
    ] = False,
    pace: Annotated[
        float,
        typer.Option(help="How much faster than the machine's the stack's time goes, 1 to 240; 60: a minute a second."),
    ] = 1.0,
    processes: Annotated[
        int, typer.Option(min=1, max=8, help="Processes that each variant may have, as many as its instances.")
    ] = 1,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep what the stack holds: the next up of this folder goes on from there.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Deploy anew from the sources: no kept state, no image.")
    ] = False,
    state: State = _STATE,
    root: Root = Path(),
    as_json: JsonFlag = False,
) -> None:
    """Start everything, deploy the dev stage and return when it is ready; a stack that is up already is reported."""
    from local.documents import running_document  # noqa: PLC0415 - as below
    from local.stack import LocalStack  # noqa: PLC0415 - boto3 and ONNX load only when it starts

    document = running_document(state, root=root)
    if document is None:
        with progress_console.status("starting") as status:
            stack = LocalStack(
                state,
                root,
                on_progress=status.update,
                detached=True,
                port=port,
                api_port=api_port,
                scales=scale,
                pace=pace,
                processes=processes,
                keep=keep,
                fresh=fresh,
            )
            document = stack.bring_up()
    emit(document, as_json=as_json, lines=_lines(document))


@app.command()
def status(*, state: State = _STATE, as_json: JsonFlag = False) -> None:
    """Say what runs; exit 1 when nothing does."""
    from local.lifecycle import report  # noqa: PLC0415

    document = report(state)
    services = document["services"]
    lines = [f"state: {document['state']}"]
    if isinstance(services, dict):
        lines += [f"{name}: {_service(service)}" for name, service in services.items()]
    kept_at = document["kept_at"]
    if isinstance(kept_at, float):
        lines.append(f"kept: {datetime.fromtimestamp(kept_at, UTC):%Y-%m-%d %H:%M:%S} UTC")
    emit(document, as_json=as_json, lines=lines)
    if document["state"] in {"down", "stale"}:
        raise typer.Exit(1)


@app.command()
def down(*, state: State = _STATE, as_json: JsonFlag = False) -> None:
    """End everything; nothing to end is fine."""
    from local.lifecycle import report, take_down  # noqa: PLC0415

    ended = take_down(state)
    kept = report(state)["kept_at"] is not None
    line = "ended" if ended else "nothing ran"
    emit(
        {"ended": ended, "kept": kept},
        as_json=as_json,
        lines=[f"{line}; what it held is kept for the next up" if kept else line],
    )


@app.command()
def logs(
    service: Annotated[
        str, typer.Argument(help="A log's name, such as gateway or cdk-stage; all of them without.")
    ] = "",
    *,
    lines: Annotated[int, typer.Option(min=0, help="How many of the last lines.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
    state: State = _STATE,
) -> None:
    """Print the ends of the stack's logs."""
    from local.tail import follow_lines, last_lines, named_logs  # noqa: PLC0415

    chosen = named_logs(state, service)
    for log in chosen:
        for line in last_lines(log, count=lines):
            typer.echo(f"{log.stem}: {line}")
    if follow:
        for log, line in follow_lines(chosen):
            typer.echo(f"{log.stem}: {line}")


@fault_app.command("add")
def fault_add(
    kind: Annotated[str, typer.Argument(help="What it does: `fault kinds` gives all.")],
    *,
    endpoint: Annotated[str, typer.Option(help="The endpoint's name; every one without.")] = "*",
    delay_ms: Annotated[float, typer.Option(help="What slow adds to an answer.")] = 1000.0,
    bucket: Annotated[str, typer.Option(help="The S3 bucket; every one without.")] = "*",
    prefix: Annotated[str, typer.Option(help="What the S3 key begins with.")] = "",
    table: Annotated[str, typer.Option(help="The DynamoDB table; every one without.")] = "*",
    operation: Annotated[str, typer.Option(help="The API's name, such as PutObject; every one without.")] = "*",
    seconds: Annotated[float, typer.Option(help="How far clock-jump sets the clock forward; back below 0.")] = 0.0,
    share: Annotated[float, typer.Option(help="Part of the calls, above 0 up to 1, that meet it.")] = 1.0,
    count: Annotated[int, typer.Option(help="How many calls meet it before it is gone; 0: no end.")] = 0,
    name: Annotated[str, typer.Option(help="The fault's name; its kind and what it meets without.")] = "",
    state: State = _STATE,
    as_json: JsonFlag = False,
) -> None:
    """Add a fault, in place of one of the same name."""
    from local.faults import make  # noqa: PLC0415

    fault = make(
        kind,
        name=name,
        endpoint=endpoint,
        delay_ms=delay_ms,
        bucket=bucket,
        prefix=prefix,
        table=table,
        operation=operation,
        share=share,
        count=count,
        seconds=seconds,
    )
    _faults(state).add(fault)
    emit({"added": fault.name}, as_json=as_json, lines=[f"added {fault.name}"])


@fault_app.command("kinds")
def fault_kinds(*, as_json: JsonFlag = False) -> None:
    """Give every kind of fault, what it does and its options."""
    from local.faults import KINDS  # noqa: PLC0415

    found = {kind: {"does": does, "options": list(options)} for kind, (does, options) in KINDS.items()}
    flags = {kind: " ".join(f"--{option.replace('_', '-')}" for option in of.options) for kind, of in KINDS.items()}
    lines = [f"{kind}: {of.does}{f' ({flags[kind]})' if flags[kind] else ''}" for kind, of in KINDS.items()]
    emit({"kinds": found}, as_json=as_json, lines=lines)


@fault_app.command("list")
def fault_list(*, state: State = _STATE, as_json: JsonFlag = False) -> None:
    """Give every fault."""
    from dataclasses import asdict  # noqa: PLC0415

    found = _faults(state).all()
    lines = [f"{fault.name}: {fault.kind} of {fault.meets}" for fault in found] or ["no faults"]
    emit({"faults": [asdict(fault) for fault in found]}, as_json=as_json, lines=lines)


@fault_app.command("remove")
def fault_remove(name: str, *, state: State = _STATE, as_json: JsonFlag = False) -> None:
    """Remove a fault."""
    _faults(state).remove(name)
    emit({"removed": name}, as_json=as_json, lines=[f"removed {name}"])


def _faults(state: Path) -> Faults:
    from local.faults import Faults  # noqa: PLC0415

    return Faults(state / "services")


def _service(service: dict[str, object]) -> str:
    if service["exit_code"] is not None:
        return f"ended with code {service['exit_code']}; log {service['log']}"
    return f"process {service['pid']}, port {service['port']}"


def _lines(document: dict[str, object]) -> list[str]:
    environment = document["env"]
    exports = [f"export {key}={value}" for key, value in environment.items()] if isinstance(environment, dict) else []
    return [
        f"AWS: {document['endpoint_url']}",
        f"prediction API: {document['api_url']}",
        f"page: {document['page_url']}",
        f"process: {document['pid']}",
        *exports,
    ]
