"""A sample of what `make torture` tries: every form of file, damaged."""

import re

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
    assert len(found) == 2 * len(MODELS) + 18
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


@pytest.mark.parametrize(
    ("owner", "check", "subject"),
    [
        ("bigcat.data.csv_tables", "_QUOTED", "csv"),
        ("bigcat.data.csv_tables", "check_line_ends", "csv"),
        ("bigcat.data.text", "check_line_ends", "tsv"),
        ("bigcat.data.text", "check_label", "tsv"),
        ("bigcat.tensor_file.TensorFile", "_compare", "model words"),
    ],
)
def test_a_check_that_is_missing_is_found_out(
    all_subjects, tmp_path, monkeypatch, owner, check, subject
):
    anything = re.compile(".*", re.DOTALL) if check == "_QUOTED" else lambda *arguments: None
    monkeypatch.setattr(f"{owner}.{check}", anything)
    (found,) = [s for s in all_subjects if s.name == subject]
    with pytest.raises(FoundError, match=f"{subject}: variant"):
        try_variants(found, 600, tmp_path)


def test_arrays_that_are_misread_are_found_out(all_subjects, tmp_path, monkeypatch):
    """Check sums are right here, so that the second reader has to find it."""
    (found,) = [s for s in all_subjects if s.name == "made-up npz"]
    assert try_variants(found, 200, tmp_path).verdicts["as it says"] > 10
    cut = lambda path, X: np.clip(X, -9.0, 9.0).astype(np.float32)  # noqa: E731
    monkeypatch.setattr("bigcat.data.arrays._dense", cut)
    with pytest.raises(FoundError, match="made-up npz: variant"):
        try_variants(found, 200, tmp_path)


def test_a_variant_is_the_same_each_time(all_subjects):
    for subject in all_subjects[::5]:
        assert variant(subject, 3, 7) == variant(subject, 3, 7)
        assert variant(subject, 3, 7) != variant(subject, 3, 8)


def test_no_flipped_bit_of_an_array_goes_unnoticed(tmp_path):
    for path in save_models(tmp_path).values():
        assert unnoticed_flips(path, 50, tmp_path) == 0
