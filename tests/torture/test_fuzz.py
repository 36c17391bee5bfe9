"""The inputs that fuzzing begins with are right, and what is wrong ends it."""

import json
import os
import time

import numpy as np
import pytest

from tests.torture import fuzz, soak, subjects


@pytest.mark.parametrize("reader", fuzz.READERS)
def test_fuzzing_begins_with_valid_inputs(reader, tmp_path):
    read, seeds, change = fuzz.target(reader, tmp_path)
    assert {read(seed) for seed in seeds} <= {"same", "as it says"}
    assert read(seeds[0][:3]) == "error"
    changed = {change(seeds[0], np.random.default_rng(i)) for i in range(20)}
    assert len(changed - {seeds[0]}) > 5


def test_headers_get_a_digest_that_is_right(tmp_path):
    """So that the fuzzer reaches what lies behind it."""
    load, seeds, _ = fuzz.target("model", tmp_path)
    header = json.loads(seeds[0][1:])
    header["bigcat_version"] = "0.0.1"
    assert load(seeds[0][:1] + json.dumps(header).encode()) == "as it says"
    header["fitted"]["n_features_in"] = "many"
    assert load(seeds[0][:1] + json.dumps(header).encode()) == "error"


def test_a_wrong_reading_is_kept(tmp_path, monkeypatch, capsys):
    read, seeds, _ = fuzz.target("csv", tmp_path)
    run = fuzz.Run(read, 1.0, tmp_path, tmp_path)
    run(seeds[0])
    assert run.verdicts == {"as it says": 1}
    monkeypatch.setattr(subjects, "read", lambda *args, **options: 1 / 0)
    run(seeds[0])
    run(b"another one")
    assert run.verdicts["find"] == 2
    (kept,) = tmp_path.glob("find-ZeroDivisionError-*")
    assert kept.read_bytes() == seeds[0]
    assert "division by zero" in capsys.readouterr().err


def test_a_look_at_the_process_sees_what_is_left(tmp_path):
    before = soak.Look.now(tmp_path, 0, time.monotonic())
    (tmp_path / ".model.00000000.tmp").write_text("")
    with open(os.devnull):
        after = soak.Look.now(tmp_path, 1, time.monotonic())
    assert after["temporary_files"] == before["temporary_files"] + 1
    assert after["descriptors"] == before["descriptors"] + 1
    assert before["megabytes"] > 10


def test_a_round_of_the_soak(tmp_path):
    soak.one_round(tmp_path, 1)
    assert [p.suffix for p in tmp_path.iterdir()] == [".safetensors"]
