"""Event logs: reading, windows of earlier starts, and the made-up log with an intruder."""

import numpy as np
import pytest

from benchmarks.datasets import events

LOG = """\
1,U2@DOM1,C9,P7,Start
1,C9$@DOM1,C9,P7,Start
3,U1@DOM1,C5,P3,Start
4,U2@DOM1,C9,P7,End
63,U2@DOM1,C9,P3,Start
123,U2@DOM1,C9,P7,Start
123,U1@DOM1,C5,P8,Start
"""


@pytest.fixture
def log_file(tmp_path):
    path = tmp_path / "proc.txt"
    path.write_text(LOG)
    return path


def test_reads_starts_of_people(log_file):
    starts = events.read_process_starts(log_file)
    assert starts.users.tolist() == ["U1@DOM1", "U2@DOM1"]
    assert starts.processes.tolist() == ["P3", "P7", "P8"]
    assert starts.time.tolist() == [1, 3, 63, 123, 123]
    assert starts.users[starts.user].tolist()[:2] == ["U2@DOM1", "U1@DOM1"]
    assert starts.processes[starts.process].tolist() == ["P7", "P3", "P3", "P7", "P8"]
    report = starts.report
    assert (report["lines"], report["starts"], report["ends"], report["other_users"]) == (
        7,
        5,
        1,
        1,
    )
    assert starts.counts() == {"U2@DOM1": 3, "U1@DOM1": 2}


def test_windows_are_of_the_same_user_and_fade(log_file):
    starts = events.read_process_starts(log_file)
    rows = events.windows(starts)
    dense = rows.X.toarray()
    p3, p7, p8 = range(3)
    np.testing.assert_allclose(dense[:2], 0)  # nobody's first start has one before
    np.testing.assert_allclose(dense[2], [0, np.exp(-62 / 60), 0], rtol=1e-6)
    np.testing.assert_allclose(dense[3], [np.exp(-1), np.exp(-122 / 60), 0], rtol=1e-6)
    np.testing.assert_allclose(dense[4], [np.exp(-2), 0, 0], rtol=1e-6)
    assert rows.y.tolist() == [p7, p3, p3, p7, p8]
    assert rows.X.dtype == np.float32
    assert rows.X.has_canonical_format


def test_made_up_log_round_trip_and_truth(tmp_path):
    log = events.planted_intruder(3, 15, 400, seed=2)
    path = tmp_path / "made_up.txt.gz"
    events.write_process_starts(log.starts, path)
    again = events.read_process_starts(path)
    for name in ("time", "user", "users"):
        assert np.array_equal(getattr(again, name), getattr(log.starts, name))
    names = log.starts.processes[log.starts.process]
    assert np.array_equal(again.processes[again.process], names)
    assert log.intruder.sum() == 20
    assert set(log.starts.users[log.starts.user[log.intruder]]) == {log.victim}
    same = events.planted_intruder(3, 15, 400, seed=2)
    assert np.array_equal(same.starts.process, log.starts.process)
