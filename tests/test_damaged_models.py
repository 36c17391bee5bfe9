"""Damaged model files and folders of rows: an error that names the file, or the same content."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory import peak_of
from model_files import rewrite

from bigcat.data import DataError, convert, open_shards
from bigcat.data.shards import INDEX, Index, digest_of
from bigcat.files import ModelFileError, load_model
from tests.data_files import texts
from tests.some_models import MODELS, save_models
from tests.test_damaged_data import damaged, edits, tries

#: Values that somebody puts into a header or an index, with the right digest.
LIES = [None, True, -1, 0, 2**63, 10**40, 0.5, "x", "", [], [0], {}, {"$array": "coef"}, {"x": 1}]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module", params=["csv", "tsv"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / f"rows.{request.param}"
    path.write_text(texts()[request.param])
    return convert(path, path.with_suffix("")).folder


def content_of(path):
    model, extra = load_model(path, with_extra=True)
    X = np.ones((2, model.n_features_in_), np.float32)
    return [model.predict_proba(X), model.classes_, model.intercept_], extra


def changed(value, place, lie):
    """Put a lie in the place of one value somewhere inside lists and dicts."""
    while isinstance(value, dict | list) and value:
        keys = [*value] if isinstance(value, dict) else [*range(len(value))]
        place *= len(keys)
        key, place = keys[int(place)], place - int(place)
        if not isinstance(value[key], dict | list) or not value[key] or place < 0.1:
            value[key] = lie
            return
        value = value[key]


places = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize("name", MODELS)
@tries
@given(edits=edits)
def test_a_damaged_model_file(models, tmp_path, name, edits):
    path = tmp_path / "damaged"
    path.write_bytes(damaged(models[name].read_bytes(), edits))
    try:
        found, _ = content_of(path)
    except ModelFileError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        for ours, theirs in zip(found, content_of(models[name])[0]):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", MODELS)
@tries
@given(place=places, bit=st.integers(0, 7))
def test_no_flipped_bit_goes_unnoticed(models, tmp_path, name, place, bit):
    path, content = tmp_path / "flipped", bytearray(models[name].read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")  # of the arrays
    content[start + int(place * (len(content) - start))] ^= 1 << bit
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        load_model(path, with_extra=True)


@pytest.mark.parametrize("name", MODELS)
@tries
@given(place=places, lie=st.sampled_from(LIES))
def test_a_made_up_header(models, tmp_path, name, place, lie):
    path = tmp_path / "made_up"
    shutil.copy(models[name], path)
    rewrite(path, lambda found: changed(found, place, lie))
    try:
        found, _ = content_of(path)
    except ModelFileError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        assert np.isfinite(found[0]).all()


def test_damage_does_not_make_readers_greedy(models, tmp_path):
    for name, path in models.items():
        copy, usual = tmp_path / name, peak_of(lambda path=path: content_of(path))
        for byte in range(0, path.stat().st_size, 997):
            content = bytearray(path.read_bytes())
            content[byte] ^= 0xFF
            copy.write_bytes(content)

            def look(copy=copy):
                with pytest.raises(ModelFileError):
                    load_model(copy)

            assert peak_of(look) < 2 * usual + 100_000


@tries
@given(edits=edits, place=places, lie=st.sampled_from(LIES), sealed=st.booleans())
def test_a_damaged_index_of_rows(folder, tmp_path, edits, place, lie, sealed):
    copy = tmp_path / "rows"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    index = copy / INDEX
    content = json.loads(index.read_text())
    if sealed:
        changed(content, place, lie)
        fields = {key: content[key] for key in content if key not in ("format_version", "sha256")}
        index.write_text(json.dumps({**content, "sha256": digest_of(fields)}))
    else:
        index.write_bytes(damaged(index.read_bytes(), edits))
    try:
        rows = open_shards(copy)
        X, _ = rows.X, rows.vectorizer
    except DataError as error:
        assert str(copy) in str(error)  # noqa: PT017
    else:
        assert X.shape[0] == len(rows.y)
        assert sealed or Index.read(copy) == Index.read(folder)
