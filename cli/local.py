"""`streamhub local`: SageMaker on this machine: up, status, down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.output import JsonFlag, emit, progress_console

if TYPE_CHECKING:
    from local.faults import Faults

app = typer.Typer(no_args_is_help=True)
fault_app = typer.Typer(no_args_is_help=True)
app.add_typer(fault_app, name="fault", help="What the stack shall do wrong.")

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
    state: State = _STATE,
    root: Root = Path(),
    as_json: JsonFlag = False,
) -> None:
    """Start everything, deploy the dev stage and return when it is ready; a stack that is up already is reported."""
    from local.stack import LocalStack, running_document  # noqa: PLC0415 - boto3 and ONNX load only when it starts

    document = running_document(state, root=root)
    if document is None:
        with progress_console.status("starting") as status:
            stack = LocalStack(
                state, root, on_progress=status.update, detached=True, port=port, api_port=api_port, scales=scale
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
    emit(document, as_json=as_json, lines=lines)
    if document["state"] in {"down", "stale"}:
        raise typer.Exit(1)


@app.command()
def down(*, state: State = _STATE, as_json: JsonFlag = False) -> None:
    """End everything; nothing to end is fine."""
    from local.lifecycle import take_down  # noqa: PLC0415

    ended = take_down(state)
    emit({"ended": ended}, as_json=as_json, lines=["ended" if ended else "nothing ran"])


@fault_app.command("add")
def fault_add(
    kind: Annotated[str, typer.Argument(help="slow, error, throttle, capacity or unhealthy.")],
    *,
    endpoint: Annotated[str, typer.Option(help="The endpoint's name; every one without.")] = "*",
    delay_ms: Annotated[float, typer.Option(help="What slow adds to an answer.")] = 1000.0,
    share: Annotated[float, typer.Option(help="Part of the calls, 0 to 1, that slow, error and throttle meet.")] = 1.0,
    name: Annotated[str, typer.Option(help="The fault's name; its kind and endpoint without.")] = "",
    state: State = _STATE,
    as_json: JsonFlag = False,
) -> None:
    """Add a fault, in place of one of the same name."""
    from local.faults import Fault  # noqa: PLC0415

    fault = Fault(
        name=name or f"{kind}:{endpoint}",
        kind=kind,  # type: ignore[arg-type]
        endpoint=endpoint,
        delay_ms=delay_ms,
        share=share,
    )
    _faults(state).add(fault)
    emit({"added": fault.name}, as_json=as_json, lines=[f"added {fault.name}"])


@fault_app.command("list")
def fault_list(*, state: State = _STATE, as_json: JsonFlag = False) -> None:
    """Give every fault."""
    from dataclasses import asdict  # noqa: PLC0415

    found = [asdict(fault) for fault in _faults(state).all()]
    lines = [f"{fault['name']}: {fault['kind']} of {fault['endpoint']}" for fault in found] or ["no faults"]
    emit({"faults": found}, as_json=as_json, lines=lines)


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
