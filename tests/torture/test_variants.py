"""A sample of what `make torture` tries: every form of file, damaged."""

import numpy as np
import pytest

from tests.torture.damage import DAMAGES
from tests.torture.models import MODELS, save_models
from tests.torture.subjects import subjects
from tests.torture.variants import (
    FoundError,
    most_memory,
    try_variants,
    unnoticed_flips,
    variant,
)

N = 60


@pytest.fixture(scope="module")
def all_subjects(tmp_path_factory):
    found = subjects(tmp_path_factory.mktemp("valid"))
    assert len(found) == 2 * len(MODELS) + 4
    return found


def test_damage_does_not_make_readers_greedy(all_subjects, tmp_path):
    for subject in all_subjects:
        valid, most = most_memory(subject, 10, tmp_path)
        assert valid < 2_000_000, subject.name  # for files of some kilobytes
        assert most < 2 * valid, subject.name


def test_every_damage_changes_something():
    content = b"4 5 3\n2,0 0:1 4:-2.5\n1 3:1e-3\n 2:7\n0\n" * 3
    for damage in DAMAGES:
        made = {damage(content, np.random.default_rng(seed)) for seed in range(20)}
        assert len(made - {content}) >= 5, damage.__name__


def test_a_sample_of_damaged_files(all_subjects, tmp_path):
    for subject in all_subjects:
        count = try_variants(subject, N, tmp_path, seed=1)
        assert sum(count.verdicts.values()) == N
        assert count.verdicts["error"] > N // 10, subject.name
        assert count.slowest < 5.0


def test_a_check_that_is_missing_is_found_out(all_subjects, tmp_path, monkeypatch):
    monkeypatch.setattr("bigcat.tensor_file.TensorFile._compare", lambda *arguments: None)
    (found,) = [s for s in all_subjects if s.name == "model words"]
    with pytest.raises(FoundError, match="model words: variant"):
        try_variants(found, 600, tmp_path)


def test_a_variant_is_the_same_each_time(all_subjects):
    for subject in all_subjects[::5]:
        assert variant(subject, 3, 7) == variant(subject, 3, 7)
        assert variant(subject, 3, 7) != variant(subject, 3, 8)


def test_no_flipped_bit_of_an_array_goes_unnoticed(tmp_path):
    for path in save_models(tmp_path).values():
        assert unnoticed_flips(path, 50, tmp_path) == 0
