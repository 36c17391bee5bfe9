"""Event logs: reading, windows of earlier starts, and the made-up log with an intruder."""

import gzip

import numpy as np
import pytest

from benchmarks.datasets import events
from bigcat.data import DataError

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


def test_reads_gzip_in_chunks_and_chosen_users(log_file, monkeypatch):
    monkeypatch.setattr(events, "_CHUNK_BYTES", 10)
    zipped = log_file.with_suffix(".gz")
    zipped.write_bytes(gzip.compress(LOG.encode()))
    starts = events.read_process_starts(zipped, users=["U1@DOM1"])
    assert starts.time.tolist() == [3, 123]
    assert starts.report["other_users"] == 4
    assert len(events.read_process_starts(zipped, prefix="", max_lines=2)) == 2


def test_unsorted_lines_are_put_in_order_of_time(tmp_path):
    path = tmp_path / "proc.txt"
    path.write_text("9,U1@D,C1,P1,Start\n2,U1@D,C1,P2,Start\n2,U1@D,C1,P1,Start\n")
    starts = events.read_process_starts(path)
    assert starts.processes[starts.process].tolist() == ["P2", "P1", "P1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,U1@D,C1,P1\n", "line 1: expected time,user@domain,computer,process,Start|End, found"),
        ("1,U1@D,C1,P1,Start\n1,,C1,P1,Start\n", "line 2: expected time,user@domain"),
        ("1.5,U1@D,C1,P1,Start\n", "line 1: expected whole seconds first"),
        ("1,U1@D,C1,P1,start\n", "line 1: expected Start or End last"),
        ("1,C1@D,C1,P1,Start\n", "expected process starts of accounts that begin with 'U'"),
        ("", "the file is empty"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "proc.txt"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        events.read_process_starts(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_cut_off_gzip(tmp_path):
    path = tmp_path / "proc.gz"
    path.write_bytes(gzip.compress(LOG.encode())[:-12])
    with pytest.raises(DataError, match="cut off"):
        events.read_process_starts(path)


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


def test_windows_length_repeats_and_incomplete_rows():
    n = 12
    starts = events.ProcessStarts(
        np.arange(n) * 30,
        np.zeros(n, np.int32),
        np.array([0, 1] * 6, np.int32),
        np.array(["U1"]),
        np.array(["P0", "P1"]),
    )
    age = np.exp(-30.0 * np.arange(1, 6) / 60)
    complete = events.windows(starts, incomplete="drop")
    assert complete.event.tolist() == list(range(5, n))
    expected = [age[1] + age[3], age[0] + age[2] + age[4]]  # of a start of P0
    np.testing.assert_allclose(complete.X.toarray()[1], expected, rtol=1e-6)
    latest = events.windows(starts, repeats="latest").X.toarray()
    np.testing.assert_allclose(latest[6], [age[1], age[0]], rtol=1e-6)
    two = events.windows(starts, 2, 10.0).X.toarray()
    np.testing.assert_allclose(two[6], [np.exp(-6), np.exp(-3)], rtol=1e-6)


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


def test_planted_stretch_looks_like_the_impostor():
    log = events.planted_intruder(2, 30, 4000, stretch=(0.5, 1.0), seed=1)
    starts = log.starts
    victim, planted = starts.user == 0, log.intruder
    share = [
        np.bincount(starts.process[rows], minlength=30) / rows.sum()
        for rows in (planted, victim & ~planted, starts.user == 1)
    ]
    assert abs(share[0] - share[2]).sum() < 0.3 < 0.8 < abs(share[0] - share[1]).sum()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: events.windows(s, 0), "n_previous must be at least 1, got 0"),
        (lambda s: events.windows(s, seconds=0), "seconds must be above 0, got 0"),
        (
            lambda s: events.windows(s, repeats="max"),  # type: ignore[arg-type]
            "repeats must be 'sum' or 'latest'",
        ),
        (
            lambda s: events.windows(s, incomplete="pad"),  # type: ignore[arg-type]
            "incomplete must be 'keep' or 'drop'",
        ),
        (lambda s: events.planted_intruder(1), "n_users must be at least 2, got 1"),
        (lambda s: events.planted_intruder(n_starts=0), "n_starts must be at least 1, got 0"),
        (lambda s: events.planted_intruder(stretch=(0.5, 0.5)), "stretch must be two rising"),
        (lambda s: events.planted_intruder(habit=2), "habit must lie between 0 and 1, got 2"),
    ],
)
def test_bad_arguments(call, message):
    starts = events.planted_intruder(2, 5, 10).starts
    with pytest.raises(ValueError, match=message):
        call(starts)
