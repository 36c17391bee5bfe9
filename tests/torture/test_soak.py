"""Rounds of the soak, and the look that it takes at its process."""

import os
import time

from tests.torture import soak


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
