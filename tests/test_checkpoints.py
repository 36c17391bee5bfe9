"""A fit that was killed goes on with the same bits; nothing else is taken for it."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from bigcat import BayesianClassifier, Checkpoint, LinearClassifier
from bigcat.bayes import AugmentReducePosterior
from bigcat.cli import main
from bigcat.estimators import checkpoint_folder as checkpoint
from bigcat.estimators.checkpoint_folder import CheckpointError
from bigcat.samplers import Shared, Uniform
from bigcat.solvers import AdaGrad, Implicit
from bigcat.training import passes

RNG = np.random.RandomState(0)
X = RNG.standard_normal((600, 4))
Y = (X @ RNG.standard_normal((4, 5)) + RNG.gumbel(size=(600, 5))).argmax(axis=1)
SPARSE = scipy.sparse.random(2_000, 300, 0.05, format="csr", random_state=0)
OF_SPARSE = (SPARSE @ RNG.standard_normal((300, 20))).argmax(axis=1)

#: Each with what is special about its state.
FITS: dict[str, dict[str, Any]] = {
    "local parameters": {"method": "augment-reduce"},
    "a solver's memory": {"method": "augment-reduce", "solver": AdaGrad(batch_size=8)},
    "one scale of all weights": {"method": "augment-reduce", "solver": "sgd", "l2": 3.0},
    "an average": {"method": "exact", "solver": "damped", "sampler": "auto"},
    "fixed batches": {"solver": Implicit(batch_size=8), "method": "implicit"},
    "the best epoch": {"method": "augment-reduce", "early_stopping": True},
    "low rank": {"rank": 8, "max_epochs": 8, "sampler": Shared(2)},
}


class Killed(BaseException):
    """Abrupt end of a fit inside one process."""


@pytest.fixture
def small_chunks(monkeypatch):
    """Many calls per epoch, so that a fit can be cut in the middle of one."""
    monkeypatch.setattr(passes, "FIRST_CHUNK", 64)
    monkeypatch.setattr(passes, "CHUNK_SECONDS", 1e-9)


@pytest.fixture
def die_after(monkeypatch):
    """A function that makes a fit die after so many checkpoints."""
    put = checkpoint.FolderCheckpointer._put

    def set_end(n_checkpoints):
        left = [n_checkpoints]

        def put_and_die(self, kept):
            put(self, kept)
            left[0] -= 1
            if left[0] == 0:
                raise Killed

        monkeypatch.setattr(checkpoint.FolderCheckpointer, "_put", put_and_die)

    return set_end


def fitted_arrays(model):
    if isinstance(model, BayesianClassifier):
        return [model.posterior_.mean, model.posterior_.scale]
    return [*model._weights().arrays().values(), model.intercept_]


def assert_same(model, other):
    for ours, theirs in zip(fitted_arrays(model), fitted_arrays(other), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(model.history_) == len(other.history_)


def kill_and_resume(model, data, folder, die_after, cuts):
    """The fit, killed after so many checkpoints, again and again."""
    kept = model.set_params(checkpoint=Checkpoint(folder, every_seconds=0.0))
    for n_checkpoints in cuts:
        die_after(n_checkpoints)
        with pytest.raises(Killed):
            kept.fit(*data, resume=True)
        assert not hasattr(kept, "classes_")
    die_after(-1)
    return kept.fit(*data, resume=True)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("which", FITS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_killed_fit_goes_on_with_the_same_bits(which, tmp_path, die_after):
    options = {"max_epochs": 3, "random_state": 0, "sampler": Uniform(2), **FITS[which]}
    data = (SPARSE, OF_SPARSE) if which == "low rank" else (X, Y)
    never = LinearClassifier(**options).fit(*data)
    killed = kill_and_resume(LinearClassifier(**options), data, tmp_path, die_after, (1, 7, 4))
    assert_same(killed, never)
    assert np.ptp(never.predict_proba(data[0][:9]), axis=0).max() > 0.02  # it has learned something


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_defaults_go_on_too(tmp_path, die_after):
    """Several fits after another, with trials of a rate before and a pass over all rows after."""
    data = SPARSE, OF_SPARSE
    never = LinearClassifier(random_state=0, solver=AdaGrad(batch_size=1)).fit(*data)
    assert {row["stage"] for row in never.history_} == {"validation", "refit"}
    assert (np.diff(never.history_["seconds"]) >= 0.0).all()
    estimator = LinearClassifier(random_state=0, solver=AdaGrad(batch_size=1))
    assert_same(kill_and_resume(estimator, data, tmp_path, die_after, (1, 3, 5)), never)


@pytest.mark.parametrize("prior", ["gaussian", "learned"])
@pytest.mark.parametrize("validation_fraction", [None, 0.2])
def test_a_posterior_goes_on_too(prior, validation_fraction, tmp_path, die_after):
    method = AugmentReducePosterior(
        n_negatives=2, max_epochs=4, tol=0.0, validation_fraction=validation_fraction
    )
    never = BayesianClassifier(method, prior, random_state=0).fit(X, Y)
    estimator = BayesianClassifier(method, prior, random_state=0)
    assert_same(kill_and_resume(estimator, (X, Y), tmp_path, die_after, (1, 2)), never)


def test_without_a_seed_the_numbers_of_the_first_process_count(tmp_path, die_after):
    estimator = LinearClassifier(
        method="augment-reduce", max_epochs=3, n_threads=1, early_stopping=False
    )
    state = np.random.get_state()  # noqa: NPY002
    killed = kill_and_resume(estimator, (X, Y), tmp_path, die_after, (2,))
    np.random.set_state(state)  # noqa: NPY002
    never = LinearClassifier(
        method="augment-reduce", max_epochs=3, n_threads=1, early_stopping=False
    )
    assert_same(killed, never.fit(X, Y))


@pytest.fixture
def begun(tmp_path, die_after):
    """A fit that was killed after its first epoch, and its folder."""
    estimator = LinearClassifier(
        method="augment-reduce",
        max_epochs=3,
        random_state=0,
        early_stopping=False,
        checkpoint=Checkpoint(tmp_path / "fit", every_seconds=0.0),
    )
    die_after(2)
    with pytest.raises(Killed):
        estimator.fit(X, Y)
    die_after(-1)
    return estimator


def test_other_parameters_are_refused_by_name(begun):
    begun.set_params(l2=2.0, max_epochs=4)
    with pytest.raises(CheckpointError, match=r"l2 was 'auto' and is 2\.0; max_epochs was 3"):
        begun.fit(X, Y, resume=True)


def test_other_data_are_refused_by_name(begun):
    with pytest.raises(CheckpointError, match="belongs to another fit: X holds other values"):
        begun.fit(X + 1e-9, Y, resume=True)
    with pytest.raises(CheckpointError, match="sample_weight holds other values"):
        begun.fit(X, Y, np.full(len(Y), 2.0), resume=True)


def test_an_unfinished_fit_is_not_overwritten(begun):
    with pytest.raises(CheckpointError, match="an unfinished fit; continue it with resume=True"):
        begun.fit(X, Y)


def test_progress_and_the_interval_may_change(begun):
    checkpoint = Checkpoint(begun.checkpoint.folder, every_seconds=5.0)
    begun.set_params(progress=False, checkpoint=checkpoint).fit(X, Y, resume=True)
    assert begun.n_iter_ == 3


@pytest.mark.parametrize("name", ["thesis.txt", "thesis.tmp", "run-final.safetensors"])
def test_a_folder_with_other_files_is_not_touched(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(CheckpointError, match=rf"holds other files, such as {re.escape(name)};"):
        LinearClassifier(method="exact", checkpoint=tmp_path).fit(X, Y)
    checkpoint.remove(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_that_comes_during_a_fit_is_not_touched(begun):
    mine = Path(begun.checkpoint.folder) / "run-0001-mine.safetensors"
    mine.write_text("mine")
    begun.fit(X, Y, resume=True)
    checkpoint.remove(begun.checkpoint.folder)
    assert mine.read_text() == "mine"


def test_a_folder_that_disappears_during_a_fit_costs_no_model(tmp_path):
    def delete(row):
        if folder.exists():
            shutil.rmtree(folder)

    folder = tmp_path / "fit"
    estimator = LinearClassifier(method="augment-reduce", max_epochs=2, progress=[delete])
    estimator.set_params(checkpoint=Checkpoint(folder, every_seconds=0.0), early_stopping=False)
    with pytest.warns(UserWarning, match="could not write a checkpoint .* the fit continues"):
        estimator.fit(X, Y)
    assert estimator.n_iter_ == 2


def test_a_folder_that_cannot_be_made_is_reported_before_the_fit(tmp_path):
    (tmp_path / "file").write_text("")
    estimator = LinearClassifier(method="exact", checkpoint=tmp_path / "file" / "fit")
    with pytest.raises(CheckpointError, match=r"could not begin a checkpoint .*; choose another"):
        estimator.fit(X, Y)


def test_a_damaged_checkpoint_costs_an_interval_and_not_the_fit(begun):
    never = LinearClassifier(
        method="augment-reduce", max_epochs=3, random_state=0, early_stopping=False
    )
    newest = sorted(Path(begun.checkpoint.folder).glob("run-*"))[-1]
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    newest.write_bytes(content)
    with pytest.warns(
        UserWarning, match="is damaged or belongs to .* is not used; the fit continues from the one"
    ):
        begun.fit(X, Y, resume=True)
    assert_same(begun, never.fit(X, Y))


def test_a_checkpoint_whose_head_lies_is_not_mapped(begun):
    """It says that an array takes half of its bytes."""
    newest = sorted(Path(begun.checkpoint.folder).glob("run-*"))[-1]
    written = newest.read_bytes()
    content = written.replace(b'"F64"', b'"F32"', 1)
    assert content != written
    newest.write_bytes(content)
    with pytest.warns(UserWarning, match="is damaged or belongs to another fit and is not used"):
        begun.fit(X, Y, resume=True)
    assert begun.n_iter_ == 3


def test_files_of_another_fit_with_the_same_shapes_are_not_used(begun, tmp_path, die_after):
    other = LinearClassifier(**begun.get_params(deep=False))
    other.set_params(random_state=1, checkpoint=Checkpoint(tmp_path / "other", every_seconds=0.0))
    die_after(2)
    with pytest.raises(Killed):
        other.fit(X, Y)
    die_after(-1)
    for path in (tmp_path / "other").glob("run-*"):
        path.replace(Path(begun.checkpoint.folder) / path.name)
    never = LinearClassifier(**begun.get_params(deep=False)).set_params(checkpoint=None)
    with pytest.warns(UserWarning, match="belongs to another fit and is not used"):
        begun.fit(X, Y, resume=True)
    assert_same(begun, never.fit(X, Y))


def test_a_damaged_list_of_parameters_is_an_error(begun):
    path = Path(begun.checkpoint.folder) / checkpoint.FIT_FILE
    path.write_text(path.read_text().replace('"3"', '"4"', 1))
    with pytest.raises(CheckpointError, match=r"fit\.json is damaged, .*; delete"):
        begun.fit(X, Y, resume=True)


def test_a_full_disk_does_not_end_a_fit(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "_write", full)
    estimator = LinearClassifier(method="augment-reduce", max_epochs=2, checkpoint=tmp_path)
    with pytest.warns(UserWarning, match="could not write a checkpoint .* the fit continues"):
        estimator.fit(X, Y)
    assert estimator.n_iter_ == 2


def test_a_disk_that_is_full_at_the_end_leaves_the_fit(tmp_path, monkeypatch):
    write = checkpoint._write_json

    def full_at_the_end(path, content):
        if content["complete"]:
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(checkpoint, "_write_json", full_at_the_end)
    estimator = LinearClassifier(method="augment-reduce", max_epochs=2, checkpoint=tmp_path)
    with pytest.warns(UserWarning, match="could not mark the fit in .* as complete: .*No space"):
        estimator.fit(X, Y)
    assert estimator.n_iter_ == 2


def test_what_a_killed_checkpoint_leaves_is_removed(begun):
    folder = Path(begun.checkpoint.folder)
    left = folder / ".run-0001-000009.safetensors.abcdefgh.tmp"
    left.mkdir()
    (left / "file").write_bytes(b"half of it")
    begun.fit(X, Y, resume=True)
    checkpoint.remove(folder)
    assert not folder.exists()


def test_a_finished_fit_leaves_the_folder_to_the_next(begun):
    begun.fit(X, Y, resume=True)
    begun.set_params(max_epochs=2).fit(X, Y)
    assert begun.n_iter_ == 2
    begun.set_params(l2=1.0).fit(X, Y, resume=True)  # begins anew: nothing is under way


def test_files_of_a_run_do_not_pile_up(tmp_path):
    estimator = LinearClassifier(method="augment-reduce", max_epochs=9, early_stopping=False)
    estimator.set_params(checkpoint=Checkpoint(tmp_path, every_seconds=0.0)).fit(X, Y)
    assert len(list(tmp_path.glob("run-*"))) == checkpoint.KEPT


@pytest.mark.parametrize(
    ("options", "resume", "message"),
    [
        ({"checkpoint": 3}, False, "checkpoint=3 must be the name of a folder, or None"),
        ({}, True, "resume=True needs a checkpoint to resume from; set checkpoint to its folder"),
    ],
)
def test_values_that_cannot_be_meant_are_errors(options, resume, message):
    with pytest.raises(ValueError, match=message):
        LinearClassifier(**options).fit(X, Y, resume=resume)


def test_a_posterior_that_makes_no_passes_has_no_checkpoints(tmp_path):
    with pytest.raises(ValueError, match="is for stochastic fits, and method='laplace' makes none"):
        BayesianClassifier(checkpoint=tmp_path).fit(X, Y)


def test_ctrl_c_leaves_a_model_and_says_how_to_go_on(tmp_path):
    def interrupt(row):
        if row["epoch"] == 2:
            raise KeyboardInterrupt

    estimator = LinearClassifier(
        method="augment-reduce", max_epochs=9, random_state=0, progress=[interrupt]
    ).set_params(checkpoint=tmp_path, early_stopping=False)
    with pytest.raises(KeyboardInterrupt, match=r"fit\(X, y, resume=True\) continues from"):
        estimator.fit(X, Y)
    assert estimator.n_iter_ == 2
    assert estimator.score(X, Y) > 0.4
    assert estimator.n_features_in_ == 4


def test_ctrl_c_on_the_command_line_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(LinearClassifier, "fit", interrupted)
    np.savez(tmp_path / "train.npz", X=X, y=Y)
    files = [str(tmp_path / name) for name in ("train.npz", "model", "fit")]
    assert main(["fit", files[0], "--model", files[1], "--checkpoint", files[2]]) == 130
    assert "the same command with --resume continues from the checkpoint" in capsys.readouterr().err
