from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from serving.runtime.supervision import Death, check_memory, check_processes, restart_in_s

MIB = 1 << 20


def test_pauses_double_to_half_a_minute() -> None:
    deaths: list[Death] = []
    pauses = []
    for _ in range(12):
        deaths.append(Death(at_s=100.0, served=True))
        pauses.append(restart_in_s(deaths))
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-1] == 30.0


def test_deaths_of_long_ago_are_forgotten() -> None:
    assert restart_in_s([Death(0.0, True)] * 9 + [Death(61.0, True)]) == 0.1


def test_what_never_serves_is_given_up_at_the_fifth_time_and_not_before() -> None:
    never = [Death(float(at), served=False) for at in range(5)]
    assert restart_in_s(never[:4]) is not None
    assert restart_in_s(never) is None
    assert restart_in_s([*never[:3], Death(3.0, served=True), never[4]]) is not None


@given(st.lists(st.tuples(st.floats(0, 1000), st.booleans()), min_size=1, max_size=200))
def test_a_pause_is_never_longer_than_half_a_minute(deaths: list[tuple[float, bool]]) -> None:
    pause_s = restart_in_s([Death(at_s, served) for at_s, served in sorted(deaths)])
    assert pause_s is None or 0.1 <= pause_s <= 30.0


def test_no_more_processes_than_cores() -> None:
    assert check_processes(1, cores=1) is None
    assert check_processes(4, cores=4) is None
    assert "allowed 1 to 4" in str(check_processes(5, cores=4))
    assert check_processes(0, cores=4) is not None


def test_no_more_processes_than_fit_the_memory() -> None:
    assert check_memory(4, each_bytes=500 * MIB, limit_bytes=2000 * MIB) is None
    assert "choose 3" in str(check_memory(4, each_bytes=501 * MIB, limit_bytes=2000 * MIB))
    assert check_memory(4, each_bytes=0, limit_bytes=MIB) is None, "a kernel that does not say how much it is"
