"""Releases as `streamhub release status` reads them, and the bound of the uplift from look to look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from local.page.document import (
    MAX_LOOKS,
    MAX_RELEASES,
    MAX_TRANSITIONS,
    Endpoint,
    Gate,
    Look,
    Release,
    Transition,
    short,
    thinned,
)
from serving.ports import EvidenceReader, ReleaseStore
from serving.release.audit import AuditEntry
from serving.release.decide import Decision
from serving.release.gates import uplift_gate
from serving.release.policy import ReleasePolicy, policy_for
from serving.release.standing import seen, standing
from serving.release.state import ReleaseRecord
from serving.spec import SLOTS, ModelSpec, Slot, endpoint_name
from serving.telemetry.evidence import StageEvidence

_KEPT_LOOKS = 4 * MAX_LOOKS


class ReleaseReader:
    """Reads the releases of a stage's models.

    Between two transitions nobody keeps a look, so the bound's way there is what this reader saw while it was asked.
    """

    def __init__(
        self, *, store: ReleaseStore, evidence: EvidenceReader, models: Mapping[str, ModelSpec], stage: str
    ) -> None:
        self._store = store
        self._evidence = evidence
        self._models = models
        self._stage = stage
        self._history: dict[str, tuple[int, Sequence[AuditEntry]]] = {}
        self._looks: dict[str, dict[str, Look]] = {}

    def read(self, endpoints: Sequence[Endpoint], now: datetime) -> tuple[list[Release], list[str], int]:
        """Give the releases, the models that never had one, and how many models were left off.

        Raises:
            ReleaseError: the records cannot be read.

        """
        names = sorted(self._models)[:MAX_RELEASES]
        records = {name: self._store.get(name) for name in names}
        shares = {endpoint.name: endpoint for endpoint in endpoints}
        return (
            [
                self._release(record, _weights(shares.get(endpoint_name(self._stage, self._models[name].slug))), now)
                for name, record in records.items()
                if record is not None
            ],
            [name for name, record in records.items() if record is None],
            max(0, len(self._models) - MAX_RELEASES),
        )

    def _release(self, record: ReleaseRecord, weights: Mapping[Slot, float], now: datetime) -> Release:
        spec = self._models[record.model].release
        policy = policy_for(spec, name=record.policy)
        evidence, note = seen(record, self._evidence.read)
        found = standing(record, evidence, policy, weights=weights, now=now)
        history = [entry for entry in self._entries(record) if entry.record.release_id == record.release_id]
        decision = found.decision
        if record.terminal:
            decision = _ending(history) or decision
        return Release(
            model=record.model,
            release_id=short(record.release_id),
            state=record.state.value,
            terminal=record.terminal,
            challenger=record.challenger,
            challenger_version=record.challenger_version,
            production=record.production,
            production_version=record.production_version,
            stage=record.stage_index,
            stages=len(policy.ramp),
            share=record.share,
            actor=short(record.actor),
            reason=short(record.reason),
            started_at=record.started_at,
            updated_at=record.updated_at,
            decision=decision.kind.value,
            rule=short(decision.rule),
            gates=[
                Gate(name=gate.gate, verdict=gate.verdict.value, text=short(gate.text)) for gate in decision.reasons
            ],
            follows=not found.diverged,
            note=short(note),
            min_uplift=None if policy.metric == "none" else policy.min_uplift,
            looks=thinned(self._all_looks(record, history, evidence, policy, now), MAX_LOOKS),
            transitions=[_transition(entry) for entry in history],
        )

    def _entries(self, record: ReleaseRecord) -> Sequence[AuditEntry]:
        version, entries = self._history.get(record.model, (0, ()))
        if version != record.version:
            entries = self._store.history(record.model, limit=MAX_TRANSITIONS)
            self._history[record.model] = (record.version, entries)
        return entries

    def _all_looks(
        self,
        record: ReleaseRecord,
        history: Sequence[AuditEntry],
        evidence: StageEvidence | None,
        policy: ReleasePolicy,
        now: datetime,
    ) -> Sequence[Look]:
        key = f"{record.model}/{record.release_id}"
        for gone in [known for known in self._looks if known.startswith(f"{record.model}/") and known != key]:
            del self._looks[gone]
        kept = self._looks.setdefault(key, {})
        for entry in history:
            if entry.before is not None and entry.evidence is not None:
                _keep(kept, _look(entry.before, entry.evidence, entry.policy, entry.record.updated_at))
        if evidence is not None:
            _keep(kept, _look(record, evidence, policy, now))
        return sorted(kept.values(), key=lambda look: look.at)


def _ending(history: Sequence[AuditEntry]) -> Decision | None:
    """Give what the controller decided when the release ended; None where a person ended it."""
    # the newest entry of a promotion and of a rollback only says that the endpoint has followed
    ends = [entry for entry in history if entry.decision is not None or not entry.record.terminal]
    return ends[0].decision if ends else None


def _keep(kept: dict[str, Look], look: Look | None) -> None:
    """Keep a look once: the same evidence says the same, whenever it is read."""
    if look is None:
        return
    kept.setdefault(f"{look.stage}/{look.impressions}/{look.estimate!r}/{look.lower!r}", look)
    if len(kept) > _KEPT_LOOKS:
        for key in list(kept)[1:-1:2]:
            del kept[key]


def _look(record: ReleaseRecord, evidence: StageEvidence, policy: ReleasePolicy, at: datetime) -> Look | None:
    numbers = uplift_gate(evidence, policy).numbers
    if "uplift" not in numbers:
        return None
    return Look(
        at=at,
        stage=record.stage_index,
        impressions=evidence.control.total_impressions + evidence.challenger.total_impressions,
        estimate=numbers["uplift"],
        lower=numbers["lower"],
        upper=numbers["upper"],
    )


def _transition(entry: AuditEntry) -> Transition:
    record = entry.record
    return Transition(
        at=record.updated_at,
        state=record.state.value,
        share=record.share,
        actor=short(record.actor),
        reason=short(record.reason),
    )


def _weights(endpoint: Endpoint | None) -> dict[Slot, float]:
    variants = endpoint.variants if endpoint is not None else ()
    return {slot: variant.share for slot in SLOTS for variant in variants if variant.name == slot}
