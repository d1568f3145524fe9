"""Ticks and commands: read, decide purely, write the record, then bring the endpoint to what the record says.

The record is written first and by compare-and-set; what follows is done from the record alone and may be done
again. So a crash at any point is repaired by the next tick, and of two controllers one does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from lambdas.release.outcome import Status, Step
from lambdas.release.slots import Slots, View, refuse_leftovers
from serving.errors import (
    EndpointError,
    ModelNotFoundError,
    RegistryError,
    ReleaseError,
    StaleWriteError,
)
from serving.ports import AuditLog, Clock, EndpointControl, EvidenceReader, ModelRegistry, ReleaseStore
from serving.release import transitions
from serving.release.audit import AuditEntry
from serving.release.decide import Decision, DecisionKind, decide
from serving.release.policy import DEFAULT_POLICY, ReleasePolicy, policy_for
from serving.release.standing import seen, standing
from serving.release.state import ReleaseRecord, ReleaseState
from serving.spec import ModelSpec, Slot, StageSpec

PRODUCTION_ALIAS = "production"
_FORWARD = {DecisionKind.ADVANCE, DecisionKind.PROMOTE}


class _Command(Protocol):
    def __call__(self, record: ReleaseRecord, *, actor: str, reason: str, now: datetime) -> ReleaseRecord: ...


class Controller:
    """Moves the releases of one stage."""

    def __init__(
        self,
        *,
        stage: StageSpec,
        models: Mapping[str, ModelSpec],
        store: ReleaseStore,
        evidence: EvidenceReader,
        endpoints: EndpointControl,
        audit: AuditLog,
        clock: Clock,
        registry: ModelRegistry | None = None,
        policies: Callable[[ModelSpec, str], ReleasePolicy] = lambda spec, name: policy_for(spec.release, name=name),
    ) -> None:
        self._stage = stage
        self._models = models
        self._store = store
        self._evidence = evidence
        self._endpoints = endpoints
        self._audit = audit
        self._clock = clock
        self._registry = registry
        self._policies = policies

    def start(self, model: str, *, version: str, actor: str, policy: str = DEFAULT_POLICY) -> ReleaseRecord:
        """Register a release of the version in the other slot; the next tick gives it its first traffic.

        Raises:
            ReleaseError: the version is not in the other slot (the text has the line to edit), a release is under
                way, or the slot cannot take traffic.
            ApprovalError: the alias `production` is protected, and the version's digest is not approved.
            StaleWriteError: somebody started one at the same time.

        """
        slots = self._slots(model)
        rules = self._policies(self._models[model], policy)
        before = self._store.get(model)
        # an id is of a second, and evidence is counted under it
        now = self._time(since=before.updated_at + timedelta(seconds=1)) if before is not None else self._clock()
        if before is not None and not before.terminal:
            raise ReleaseError(
                f"model {model}: got a release {before.release_id} that is {before.state}; allowed one at a time; wait "
                f"for it, or end it with streamhub release rollback {model}"
            )
        production: Slot = before.production if before is not None else "a"
        view = self._startable(slots, model, version, production)
        if before is not None:
            refuse_leftovers(view, before)
        release_id = f"{version}-{now:%Y%m%dT%H%M%SZ}"
        record = transitions.start(
            model=model,
            release_id=release_id,
            policy=policy,
            production=production,
            versions=slots.versions,
            weights=view.weights,
            instances=max(1, view.instances(production)),
            previous_version=before.version if before is not None else 0,
            salt=f"{model}/{release_id}",  # every release draws its units anew
            actor=actor,
            now=now,
        )
        self._write(AuditEntry(before=before, record=record, policy=rules))
        return record

    def tick(self, model: str) -> Step | None:
        """Move a model's release on as far as its evidence allows; None when it never had one.

        Raises:
            ReleaseError: record or audit log cannot be read or written.

        """
        record = self._store.get(model)
        if record is None:
            return None
        self._mend_audit(record)
        try:
            return self._tick(record)
        except StaleWriteError:
            newest = self._store.get(model)
            note = "another controller moved the release at the same time; this one did nothing"
            return Step(record=newest if newest is not None else record, notes=(note,))

    def pause(self, model: str, *, actor: str, reason: str) -> Step:
        """Freeze the release at its share; only a broken guardrail moves it then."""
        return self._command(model, transitions.pause, actor=actor, reason=reason)

    def resume(self, model: str, *, actor: str, reason: str) -> Step:
        """Let a paused release go on."""
        return self._command(model, transitions.resume, actor=actor, reason=reason)

    def promote(self, model: str, *, actor: str, reason: str) -> Step:
        """Promote by hand, whatever the evidence says, or raise EndpointError while too few instances are there."""
        slots, record = self._slots(model), self._store.get(model)
        if record is not None and record.live:
            lacking = slots.not_ready(slots.look(), record, 1.0)
            if lacking:
                raise EndpointError(
                    f"release {record.release_id}: cannot promote: {lacking}; allowed a slot that can carry all "
                    f"traffic; ask again when it can"
                )
        return self._command(model, transitions.promote, actor=actor, reason=reason)

    def rollback(self, model: str, *, actor: str, reason: str) -> Step:
        """Give all traffic back to the slot that had it before the release, also after a promotion.

        Raises:
            ReleaseError: after a promotion, when a deploy has put another version into that slot.

        """
        try:
            return self._roll_back(model, actor=actor, reason=reason)
        except StaleWriteError:
            # a tick came between; who is on call need not ask twice
            return self._roll_back(model, actor=actor, reason=reason)

    def _roll_back(self, model: str, *, actor: str, reason: str) -> Step:
        slots, record = self._slots(model), self._store.get(model)
        if record is not None and record.state is ReleaseState.PROMOTED:
            replaced = slots.replaced(record)
            if replaced:
                raise ReleaseError(f"release {record.release_id}: cannot roll back: {replaced}, or start a release")
        return self._command(model, transitions.roll_back, actor=actor, reason=reason)

    def status(self, model: str) -> Status | None:
        """Look without touching; None when the model never had a release."""
        slots, record = self._slots(model), self._store.get(model)
        if record is None:
            return None
        evidence, unread = seen(record, self._evidence.read)
        view = slots.look()
        found = standing(
            record, evidence, self._policy(record), weights=view.weights, now=self._time(since=record.updated_at)
        )
        return Status(
            record=record,
            decision=found.decision,
            endpoint=view,
            weights=found.weights,
            diverged=found.diverged,
            evidence=evidence,
            note=unread,
        )

    def history(self, model: str, *, limit: int = 50) -> Sequence[AuditEntry]:
        """Give the newest transitions, newest first."""
        self._model(model)
        return self._store.history(model, limit=limit)

    def _tick(self, record: ReleaseRecord) -> Step:
        slots, policy, now = self._slots(record.model), self._policy(record), self._time(since=record.updated_at)
        view = slots.look()
        notes = [view.note] if view.note else []
        settled = transitions.settle(record, view.weights, now) if view.settled else record
        if settled is not record:
            late = self._finish(slots, settled)
            if late:
                return Step(record=record, notes=(*notes, late))
            self._write(AuditEntry(before=record, record=settled, policy=policy))
        evidence, unread = seen(settled, self._evidence.read)
        decision = decide(settled, evidence, policy, now)
        if decision.kind in _FORWARD:
            share = transitions.next_share(settled, decision, policy)
            lacking = slots.not_ready(view, settled, share)
            if lacking:
                decision = Decision(kind=DecisionKind.HOLD, rule=f"would {decision.kind}, but {lacking}")
        moved = transitions.apply(settled, decision, policy, now)
        if moved is not settled:
            late = self._finish(slots, moved) if moved.terminal else ""
            if late:
                return Step(record=settled, decision=decision, notes=(*notes, late))
            entry = AuditEntry(before=settled, record=moved, policy=policy, decision=decision, evidence=evidence)
            self._write(entry)
        newest, note = self._follow(slots, moved)
        return Step(
            record=newest,
            decision=decision,
            moved=moved is not record,
            notes=tuple(text for text in (*notes, unread, note) if text),
        )

    def _command(self, model: str, command: _Command, *, actor: str, reason: str) -> Step:
        slots, record = self._slots(model), self._store.get(model)
        if record is None:
            raise ReleaseError(
                f"model {model}: got no release; allowed a model with one; start it with streamhub release start"
            )
        self._mend_audit(record)
        moved = command(record, actor=actor, reason=reason, now=self._time(since=record.updated_at))
        self._write(AuditEntry(before=record, record=moved, policy=self._policy(record)))
        newest, note = self._follow(slots, moved)
        return Step(record=newest, moved=True, notes=(note,) if note else ())

    def _startable(self, slots: Slots, model: str, version: str, production: Slot) -> View:
        challenger: Slot = "b" if production == "a" else "a"
        file = f"stages/{self._stage.name}.toml"
        if version == slots.versions[production]:
            raise ReleaseError(
                f"version {version} of {model} is what production serves already (slot {production}); allowed the "
                f"version of slot {challenger}, now {slots.versions[challenger]}; see {file}"
            )
        if version != slots.versions[challenger]:
            line = {**slots.versions, challenger: version}
            raise ReleaseError(
                f"version {version} of {model} is in no slot; allowed {slots.versions[challenger]}, which slot "
                f"{challenger} holds; put this line under [models.{model}] of {file} and deploy: "
                f'versions = {{ a = "{line["a"]}", b = "{line["b"]}" }}'
            )
        view = slots.look()
        if view.status is None:
            raise EndpointError(view.note)
        if self._registry is not None:
            slots.refuse_other_contents(self._registry)
            self._registry.refuse_unapproved(model, PRODUCTION_ALIAS, version)
        has = view.instances(challenger)
        if not view.settled or has < 1:
            raise EndpointError(
                f"endpoint {slots.endpoint}: got status {view.status.status} and {has} instances in slot "
                f"{challenger}; allowed InService and at least 1; wait, or deploy the stage"
            )
        if view.weights[production] <= 0:
            raise EndpointError(
                f"endpoint {slots.endpoint}: got weights {view.weights}; allowed traffic in slot {production}, "
                f"the production of the record; a rollback restores what was before: set the weights first"
            )
        return view

    def _finish(self, slots: Slots, ended: ReleaseRecord) -> str:
        """Do what comes before the record may say that the release ended; say what could not be done."""
        try:
            slots.let_scale_in()
            self._move_alias(ended)
        except (EndpointError, RegistryError) as error:
            return f"not finished yet: {error}"
        return ""

    def _move_alias(self, ended: ReleaseRecord) -> None:
        if self._registry is None:
            return
        found = self._registry.alias(ended.model, PRODUCTION_ALIAS)
        version = found.version if found is not None else None
        taken_back = version == ended.challenger_version
        if version != ended.production_version and (ended.state is ReleaseState.PROMOTED or taken_back):
            self._registry.move_alias(
                ended.model,
                PRODUCTION_ALIAS,
                ended.production_version,
                actor=ended.actor,
                reason=f"release {ended.release_id} is {ended.state}",
            )

    def _follow(self, slots: Slots, record: ReleaseRecord) -> tuple[ReleaseRecord, str]:
        # whoever came later has the say: an old record must not move weights back
        newest = self._store.get(record.model)
        record = newest if newest is not None else record
        return record, slots.shift(record)

    def _write(self, entry: AuditEntry) -> None:
        self._store.put(entry, expected_version=entry.record.version - 1)
        self._audit.write(entry)

    def _mend_audit(self, record: ReleaseRecord) -> None:
        """Write the audit object whose writer died between the record and it."""
        if not self._audit.has(record):
            entry = self._store.entry(record.model, record.version)
            if entry is not None:
                self._audit.write(entry)

    def _time(self, *, since: datetime) -> datetime:
        """Give the time, or the last move's where this host's clock is behind that of who made it."""
        return max(self._clock(), since)

    def _policy(self, record: ReleaseRecord) -> ReleasePolicy:
        return self._policies(self._models[record.model], record.policy)

    def _slots(self, model: str) -> Slots:
        return Slots(self._endpoints, model=self._model(model), stage=self._stage)

    def _model(self, model: str) -> ModelSpec:
        if model not in self._models:
            raise ModelNotFoundError(
                f"model: got {model!r}; allowed {', '.join(sorted(self._models))}; name one of these"
            )
        return self._models[model]
