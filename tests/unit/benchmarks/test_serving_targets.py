"""Each target is a ratio of two medians of one run, or a figure; what was not measured is neither met nor missed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.serving import report
from benchmarks.serving.invariants import seen
from benchmarks.serving.results import Cell, Closed, InProcess, Invariant, Open, Overload, Results, Sample, Started
from benchmarks.serving.targets import Target, targets
from benchmarks.serving.wires import Kind


def sample(*, cpu_us: float = 10, rate: float = 1000, p50_ms: float = 1) -> Sample:
    return Sample(rate=rate, p50_ms=p50_ms, p90_ms=2, p99_ms=3, cpu_us=cpu_us, client_share=0.3, failed=0, wrong=0)


def closed(
    peer: str, kind: Kind, *, model: str = "ranker", clients: int = 32, setting: str = "best", **figures: float
) -> Closed:
    cell = Cell(model=model, peer=peer, setting="best" if setting == "best" else "window", kind=kind, clients=clients)
    return Closed.of(cell, [sample(**figures)])


def results(*cells: Closed) -> Results:
    return Results(machine={"cpus": 2}, repeats=5, closed=list(cells))


def found(of: Results, *words: str) -> Target:
    (target,) = [each for each in targets(of) if all(word in each.what for word in words)]
    return target


def test_nothing_measured_is_neither_met_nor_missed() -> None:
    reached = targets(results())
    assert reached
    assert {target.met for target in reached} == {None}
    assert {target.measured for target in reached} == {None}


@pytest.mark.parametrize(("theirs_us", "met"), [(30.0, True), (29.0, False)])
def test_ours_takes_at_most_half_of_the_cpu_of_mosec(theirs_us: float, *, met: bool) -> None:
    target = found(
        results(closed("streamhub", "binary", cpu_us=15), closed("mosec", "binary", cpu_us=theirs_us)),
        "binary",
        "mosec",
    )
    assert target.measured == pytest.approx(15 / theirs_us)
    assert target.met is met


def test_a_peer_is_compared_at_the_setting_in_which_it_takes_least() -> None:
    cells = [
        closed("streamhub", "json", cpu_us=15),
        closed("mosec", "json", cpu_us=60),
        closed("mosec", "json", setting="window", cpu_us=20),
    ]
    assert found(results(*cells), "json", "mosec").measured == pytest.approx(0.75)


@pytest.mark.parametrize(("kind", "bound"), [("binary", 1.6), ("json", 2.2)])
def test_ours_stays_near_a_server_that_does_nothing(kind: Kind, bound: float) -> None:
    target = found(
        results(closed("streamhub", kind, cpu_us=10 * bound), closed("no-op", kind, cpu_us=10)), kind, "no-op"
    )
    assert target.target == bound
    assert target.met


def test_images_are_compared_with_the_best_batch_of_the_model_alone() -> None:
    run = results(closed("streamhub", "binary", model="moderator", rate=760))
    run.in_process += [
        InProcess(model="moderator", rows=1, rate=800),
        InProcess(model="moderator", rows=32, rate=700),
        InProcess(model="ranker", rows=32, rate=9e5),
    ]
    target = found(run, "images", "binary", "in process")
    assert target.measured == pytest.approx(0.95)
    assert target.met


def highest_rate(peer: str, rate: float | None, model: str = "ranker") -> Open:
    return Open(model=model, peer=peer, kind="binary", budget_ms=12, rate=rate, p90_ms=9, p99_ms=11, probes=())


def test_the_highest_rate_is_compared_with_the_best_peer_that_has_one() -> None:
    run = results()
    run.open += [
        highest_rate("streamhub", 30_000),
        highest_rate("mosec", 10_000),
        highest_rate("fastapi", 3_000),
        highest_rate("triton", None),
    ]
    target = found(run, "open-loop", "ranker")
    assert target.measured == pytest.approx(3.0)
    assert "mosec" in target.of


def test_the_moderators_highest_rate_is_compared_with_triton_alone() -> None:
    run = results()
    run.open += [
        highest_rate(peer, rate, "moderator") for peer, rate in (("streamhub", 500), ("fastapi", 600), ("triton", 400))
    ]
    assert found(run, "open-loop", "moderator").measured == pytest.approx(1.25)


def test_start_memory_and_goodput_are_figures_of_ours() -> None:
    run = results()
    run.started += [
        Started(model="ranker", peer="mosec", setting="best", version="1", start_s=9, idle_mib=900),
        Started(model="ranker", peer="streamhub", setting="best", version="", start_s=0.5, idle_mib=111),
    ]
    run.overload.append(Overload(model="moderator", load=3.0, capacity=800, offered=2400, goodput=768, share=0.96))
    assert found(run, "start").met
    assert found(run, "idle").met is False
    assert found(run, "goodput", "3 x").met


def test_a_cell_is_the_median_of_its_runs_and_the_sum_of_its_failures() -> None:
    cell = Cell(model="ranker", peer="mosec", setting="best", kind="json", clients=8)
    runs = [sample(cpu_us=each, rate=each * 10) for each in (30, 10, 20)]
    summary = Closed.of(cell, runs)
    assert (summary.cpu_us, summary.cpu_us_low, summary.cpu_us_high, summary.rate) == (20, 10, 30, 200)
    assert summary.runs == 3


def test_the_report_says_why_a_peer_did_not_run_and_which_target_is_missed() -> None:
    run = results(closed("streamhub", "json", cpu_us=30), closed("no-op", "json", cpu_us=10))
    run.started += [
        Started(model="ranker", peer="torchserve", setting="best", version="0.12.0", why="got no java"),
        Started(model="ranker", peer="streamhub", setting="best", version="", start_s=0.5, idle_mib=60),
    ]
    run.invariants.append(Invariant(name="answers equal", held=False, measured="1 wrong"))
    reached = targets(run)
    text = report.markdown(run, reached)
    assert "| torchserve 0.12.0 | not run: got no java |" in text
    assert "at most 2.2 | 3.00 (30.0 / 10.0 us) | **no** |" in text
    assert "| answers equal | **no** | 1 wrong |" in text
    lines = report.summary(run, reached)
    assert any(line.startswith("MISSED") and "no-op" in line for line in lines)
    assert any("not run: torchserve" in line for line in lines)


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    run = results(closed("streamhub", "json"), closed("mosec", "binary", clients=8))
    run.started += [
        Started(model="ranker", peer="streamhub", setting="best", version="", start_s=0.5, idle_mib=60),
        Started(model="ranker", peer="mosec", setting="window", version="0.9.8", why="it ended"),
    ]
    tables = report.markdown(run, targets(run)).split("\n\n")
    rows = [[line.count(" |") for line in table.splitlines() if line.startswith("|")] for table in tables]
    assert any(rows)
    assert all(len(set(counts)) <= 1 for counts in rows)


def promise(run: Results, words: str) -> Invariant:
    (one,) = [each for each in seen(run) if words in each.name]
    return one


@pytest.mark.parametrize(("p50_ms", "held"), [(9.9, True), (10.0, False)])
def test_a_lone_request_waits_when_any_loop_of_one_client_takes_the_window(p50_ms: float, *, held: bool) -> None:
    run = results(
        closed("streamhub", "json", clients=1, p50_ms=0.2), closed("streamhub", "binary", clients=1, p50_ms=p50_ms)
    )
    assert promise(run, "lone").held is held


def test_one_wrong_answer_breaks_a_promise_and_a_refused_one_does_not() -> None:
    cell = Cell(model="ranker", peer="streamhub", setting="best", kind="json", clients=32)
    good = sample()
    assert promise(results(Closed.of(cell, [good, replace(good, failed=3)])), "batched").held
    assert not promise(results(Closed.of(cell, [good, replace(good, wrong=1)])), "batched").held
    other = replace(cell, peer="mosec")
    assert promise(results(Closed.of(cell, [good]), Closed.of(other, [replace(good, wrong=1)])), "batched").held


def test_goodput_is_promised_at_one_and_a_half_times_the_capacity() -> None:
    run = results()
    for load, share in ((1.5, 0.96), (3.0, 0.5)):
        run.overload.append(
            Overload(model="moderator", load=load, capacity=800, offered=800 * load, goodput=800 * share, share=share)
        )
    (one,) = seen(run)
    assert one.held
