"""Model files of scikit-learn pipelines: the steps by skops, the classifier as always."""

import io
import json
import sys
import zipfile
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import bigcat
import bigcat._io.tensors
from bigcat import LinearClassifier, inspection
from bigcat.cli import main
from bigcat.files import ModelFileError, load_model, save_model
from tests.model_files import rewrite

TEXTS, LABELS = ["soft purr", "loud bark", "red fox"] * 10, ["cat", "dog", "fox"] * 10
NUMBERS = np.arange(60.0).reshape(30, 2) % 7
TABLE = pandas.DataFrame({"text": TEXTS, "city": list("xyz") * 10, "age": [*range(29), np.nan]})
COLUMNS = make_column_transformer(
    (TfidfVectorizer(), "text"),
    (OneHotEncoder(handle_unknown="ignore"), ["city"]),
    (make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
)
CASES = {
    "scaled": ([StandardScaler()], NUMBERS),
    "words": ([TfidfVectorizer()], TEXTS),
    "chosen words": ([CountVectorizer(), SelectKBest(chi2, k=4)], TEXTS),
    "components": ([HashingVectorizer(n_features=64), TruncatedSVD(3, random_state=0)], TEXTS),
    "table": ([COLUMNS], TABLE),
}


def fitted(steps, X):
    return make_pipeline(*steps, LinearClassifier(random_state=0, max_epochs=2)).fit(X, LABELS)


def file_of(tmp_path, steps=None, X=NUMBERS):
    return save_model(fitted(steps or [StandardScaler()], X), tmp_path / "pipeline.safetensors")


@pytest.mark.parametrize("case", CASES)
def test_a_pipeline_comes_back(tmp_path, case):
    steps, X = CASES[case]
    pipeline = fitted(steps, X)
    path = save_model(pipeline, tmp_path / "a", extra={"note": 1})
    loaded, extra = load_model(path, with_extra=True)
    assert [name for name, _ in loaded.steps] == [name for name, _ in pipeline.steps]
    assert extra == {"note": 1}
    np.testing.assert_array_equal(loaded.predict_proba(X), pipeline.predict_proba(X))
    classes, log_probabilities = bigcat.predict_top_k(loaded, X, k=2)
    assert classes.shape == log_probabilities.shape == (30, 2)
    again = save_model(fitted(steps, X), tmp_path / "b", extra={"note": 1})
    assert again.read_bytes() == path.read_bytes()


def test_a_search_is_saved_with_its_best_pipeline(tmp_path):
    pipeline = make_pipeline(StandardScaler(), LinearClassifier("gumbel", "exact"))
    grid = {"linearclassifier__l2": [0.1, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(NUMBERS, LABELS)
    loaded = load_model(save_model(search, tmp_path / "search"))
    np.testing.assert_array_equal(loaded.predict_proba(NUMBERS), search.predict_proba(NUMBERS))


@pytest.mark.parametrize(
    "step", [FunctionTransformer(json.dumps), KNeighborsTransformer(n_neighbors=2)]
)
def test_other_steps_are_not_saved(tmp_path, step):
    step.fit(NUMBERS)
    pipeline = fitted([StandardScaler()], NUMBERS)
    pipeline.steps.insert(0, ("odd", step))
    with pytest.raises(TypeError, match="holds steps of scikit-learn that transform rows, and "):
        save_model(pipeline, tmp_path / "a")


def test_the_extra_that_pipelines_need(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ImportError, match=r'pip install "bigcat\[pipelines\]"'):
        file_of(tmp_path)


def altered(path, change) -> None:
    """Rewrite the archive of a file's steps with changed members."""
    with bigcat._io.tensors.open_tensors(path) as file:
        (name,) = [name for name in file.header["tensors"] if name.endswith("archive")]
        content = file.read(name).tobytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    how = change(members) or zipfile.ZIP_STORED
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for member, raw in members.items():
            archive.writestr(member, raw)
    changed: Any = {name.replace(".", "__"): np.frombuffer(out.getvalue(), np.uint8)}
    rewrite(path, **changed)


def class_of_schema(module, name):
    def change(members):
        schema = json.loads(members["schema.json"])
        schema["content"][0]["content"][1] |= {"__module__": module, "__class__": name}
        members["schema.json"] = json.dumps(schema).encode()

    return change


def claims_much(members):
    name = next(name for name in members if name.endswith(".npy"))
    head = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}
    np.lib.format.write_array_header_1_0(head, shape)
    members[name] = head.getvalue()


HARMFUL = {
    "another module": (class_of_schema("os", "system"), r"os\.system is another"),
    "a model with trees": (
        class_of_schema("sklearn.ensemble._forest", "RandomTreesEmbedding"), "is another"
    ),
    "a pickle": (lambda members: members.update({"a.pkl": b""}), "its archive holds 'a.pkl'"),
    "a claim": (claims_much, "is not as long as its header says"),
    "packed": (lambda members: zipfile.ZIP_DEFLATED, "claims more than it holds"),
    "no schema": (lambda members: members.pop("schema.json") and None, "cannot be loaded"),
}  # fmt: skip


@pytest.mark.parametrize("name", HARMFUL)
def test_an_archive_that_somebody_made_up_is_refused(tmp_path, name):
    path = file_of(tmp_path)
    change, message = HARMFUL[name]
    altered(path, change)
    with pytest.raises(ModelFileError, match=f"its steps cannot be loaded.*{message}|{message}"):
        load_model(path)


def test_options_of_vectorisers_in_steps_are_asked_about(tmp_path):
    path = file_of(tmp_path, [TfidfVectorizer(token_pattern=r"(\w+)+$|\w+")], TEXTS)
    with pytest.raises(ModelFileError, match=r"option token_pattern=.*trust_vectorizer=True"):
        load_model(path)
    assert len(load_model(path, trust_vectorizer=True)) == 2


def test_pipelines_are_explained_and_reported(tmp_path):
    pipeline = fitted([TfidfVectorizer()], TEXTS)
    found = inspection.explain(pipeline, TEXTS[:1])
    assert {row["feature"] for row in found["features"]} == {"soft", "purr"}
    assert inspection.strongest_features(pipeline, "cat", top=1)[0]["feature"] in ("soft", "purr")
    page = bigcat.report(pipeline, TEXTS, LABELS, tmp_path / "page.html", max_rows=20)
    assert "drawn at random from 30" in page.read_text()
    table = fitted([COLUMNS], TABLE)
    bigcat.report(table, TABLE, LABELS, tmp_path / "table.html", max_rows=20)


def test_pipelines_are_served(tmp_path):
    pipeline = fitted([StandardScaler()], NUMBERS)
    index = bigcat.TopKIndex(pipeline)
    classes, _ = index.top_k(NUMBERS, k=2)
    np.testing.assert_array_equal(classes, bigcat.predict_top_k(pipeline, NUMBERS, k=2)[0])
    assert index.recall(NUMBERS, k=2)["recall"] == 1.0
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(bigcat.save_onnx(pipeline, tmp_path / "a.onnx"))
    (probabilities,) = session.run(["probabilities"], {"X": NUMBERS.astype(np.float32)})
    np.testing.assert_allclose(probabilities, pipeline.predict_proba(NUMBERS), atol=1e-6)
    words = fitted([TfidfVectorizer()], TEXTS)
    assert bigcat.save_onnx(words, tmp_path / "b.onnx").stat().st_size > 1000


def test_the_command_line_takes_a_pipeline_of_text(tmp_path, capsys):
    (tmp_path / "rows.tsv").write_text("".join(f"{y}\t{x}\n" for x, y in zip(TEXTS, LABELS)))
    model = str(save_model(fitted([TfidfVectorizer()], TEXTS), tmp_path / "words"))
    assert main(["evaluate", model, str(tmp_path / "rows.tsv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0
    assert main(["evaluate", str(file_of(tmp_path)), str(tmp_path / "rows.tsv")]) == 2
    assert "load it in Python with" in capsys.readouterr().err
