"""The endpoint of a release: what it has, what it should have, and the steps from one to the other."""

from __future__ import annotations

from dataclasses import dataclass

from serving.errors import EndpointError, ReleaseError
from serving.ports import EndpointControl, EndpointStatus, ModelRegistry
from serving.release.state import ReleaseRecord
from serving.release.transitions import desired_weights, instances_for, same_weights
from serving.spec import SLOTS, ModelSpec, Slot, StageSpec, endpoint_name

IN_SERVICE = "InService"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One look at an endpoint; `status` is None when it could not be read, and `note` says why."""

    status: EndpointStatus | None
    note: str = ""

    @property
    def settled(self) -> bool:
        """The endpoint is in service: what it has is what was asked last."""
        return self.status is not None and self.status.status == IN_SERVICE

    @property
    def weights(self) -> dict[Slot, float]:
        """Weights in force."""
        return {at.slot: at.weight for at in self.status.variants} if self.status is not None else {}

    @property
    def wanted(self) -> dict[Slot, float]:
        """Weights asked for last."""
        return {at.slot: at.desired_weight for at in self.status.variants} if self.status is not None else {}

    def instances(self, slot: Slot) -> int:
        """Instances of a slot; 0 when unknown."""
        variants = self.status.variants if self.status is not None else ()
        return next((at.instances for at in variants if at.slot == slot), 0)


class Slots:
    """The two slots of one model's endpoint in one stage."""

    def __init__(self, control: EndpointControl, *, model: ModelSpec, stage: StageSpec) -> None:
        in_stage = stage.models.get(model.name)
        if in_stage is None:
            raise ReleaseError(
                f"model {model.name}: got stage {stage.name}, which does not have it; allowed: "
                f"{', '.join(sorted(stage.models))}; add it to stages/{stage.name}.toml and deploy"
            )
        self._control = control
        self._model = model.name
        self._file = f"stages/{stage.name}.toml"
        self.endpoint = endpoint_name(stage.name, model.slug)
        self.versions: dict[Slot, str] = {"a": in_stage.versions.a, "b": in_stage.versions.b}
        hosting = model.hosting
        self._least = in_stage.min_count if in_stage.min_count is not None else hosting.min_count
        self._most = in_stage.max_count if in_stage.max_count is not None else hosting.max_count

    def look(self) -> View:
        """Read the endpoint; a failure is part of the answer, because a rollback must not wait for it."""
        try:
            status = self._control.describe(self.endpoint)
        except EndpointError as error:
            return View(status=None, note=str(error))
        return View(status=status)

    def not_ready(self, view: View, record: ReleaseRecord, share: float) -> str:
        """Say why the challenger cannot take a share of traffic now, and ask for what it lacks; "" when it can."""
        if view.status is None:
            return view.note
        if not view.settled:
            return f"endpoint {self.endpoint} is {view.status.status}"
        replaced = self.replaced(record)
        if replaced:
            return replaced
        slot = record.challenger
        needed = instances_for(record, share, production=view.instances(record.production), most=self._most)
        try:
            ready = self._control.ensure_instances(self.endpoint, slot, needed)
        except EndpointError as error:
            return str(error)
        has = view.instances(slot)
        return "" if ready else f"slot {slot} has {has} of the {needed} instances that {share:.0%} of traffic needs"

    def replaced(self, record: ReleaseRecord) -> str:
        """Say when a deploy has put another version into the challenger's slot; "" when it is the record's own."""
        slot = record.challenger
        if self.versions[slot] == record.challenger_version:
            return ""
        return (
            f"slot {slot} holds {self.versions[slot]} now, not {record.challenger_version}; deploy the stage with "
            f"{record.challenger_version} in it"
        )

    def refuse_other_contents(self, registry: ModelRegistry) -> None:
        """Refuse a stage file that is not what was deployed: a release of it would be one of another version.

        Raises:
            ReleaseError: a slot serves another archive than the stage file's version; the text has the line to edit.
            EndpointError: endpoint, config or models cannot be read.
            RegistryError: the registry cannot be read.

        """
        held = self._control.holds(self.endpoint)
        known = {found.sha256: found.version for found in registry.versions(self._model)} if held else {}
        live = {slot: known.get(digest, f"sha256 {digest[:12]}…") for slot, digest in held.items()}
        if all(version == self.versions[slot] for slot, version in live.items()):
            return
        told = ", ".join(f"{version} in slot {slot}" for slot, version in sorted(live.items()))
        line = ", ".join(f'{slot} = "{version}"' for slot, version in sorted({**self.versions, **live}.items()))
        raise ReleaseError(
            f"endpoint {self.endpoint}: got {told}; allowed what {self._file} names: {self.versions['a']} in slot a, "
            f"{self.versions['b']} in slot b; deploy the stage, or run this from what was deployed: under "
            f"[models.{self._model}] versions = {{ {line} }}"
        )

    def shift(self, record: ReleaseRecord) -> str:
        """Ask for the record's weights where they differ; say what is still to come, "" when nothing is."""
        view = self.look()
        if view.status is None:
            return f"weights follow the record when the endpoint answers again: {view.note}"
        desired = desired_weights(record)
        if same_weights(view.wanted, desired):
            return ""
        shown = ", ".join(f"{slot} {weight:.0%}" for slot, weight in sorted(shares(desired).items()))
        if not view.settled:
            return f"endpoint {self.endpoint} is {view.status.status}; its weights follow at InService ({shown})"
        try:
            self._control.set_weights(self.endpoint, desired)
        except EndpointError as error:
            return f"weights follow the record ({shown}) at the next tick: {error}"
        return ""

    def let_scale_in(self) -> None:
        """Give up the minimum that a release raised.

        Raises:
            EndpointError: Application Auto Scaling does not answer.

        """
        for slot in SLOTS:
            self._control.set_minimum(self.endpoint, slot, self._least)


def shares(weights: dict[Slot, float]) -> dict[Slot, float]:
    """Give relative weights as shares of 1."""
    total = sum(weights.values())
    return {slot: weight / total if total > 0 else 0.0 for slot, weight in weights.items()}


def refuse_leftovers(view: View, before: ReleaseRecord) -> None:
    """Refuse an endpoint that does not follow its ended release yet: a new one would keep its weights to restore them.

    Raises:
        EndpointError: the weights are not those that the release ended with.

    """
    desired = desired_weights(before)
    if not same_weights(view.weights, desired):
        raise EndpointError(
            f"model {before.model}: got weights {view.weights}, which are not those that release {before.release_id} "
            f"ended with; allowed {desired}; the next tick sets them"
        )
