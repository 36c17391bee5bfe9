"""The page about a model: its numbers, what it leaves out, and that names are never markup."""

import base64
import gzip
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import accuracy_score, log_loss, top_k_accuracy_score

import bigcat
from bigcat import BayesianClassifier, LinearClassifier
from bigcat.cli import main
from bigcat.reporting import content

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.RandomState(0)
    X = rng.randn(400, 6)
    y = (X[:, :5] + 0.7 * rng.gumbel(size=(400, 5))).argmax(axis=1)
    names = np.array(["a", "b & c", HOSTILE, "$d", "é"])
    model = LinearClassifier("gumbel", "exact", l2=1.0).fit(X[:300], names[y[:300]])
    return model, X[300:], names[y[300:]]


class Page(HTMLParser):
    """Text, element names and the data of a page; notes elements that are not closed."""

    VOID = ("meta", "input", "br", "img", "link")

    def __init__(self, text):
        super().__init__()
        self.words, self.tags, self.open, self.inside = [], [], [], None
        self.feed(text)
        packed = re.search(r'<script type="text/plain" id="data">([^<]*)</script>', text)
        assert packed is not None
        self.data = json.loads(gzip.decompress(base64.b64decode(packed[1])))

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(text)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def page_of(model, X, y, tmp_path, **options):
    return Page(bigcat.report(model, X, y, tmp_path / "r.html", **options).read_text("utf-8"))


def test_figures_agree_with_scikit_learn(fitted, tmp_path):
    model, X, y = fitted
    page = page_of(model, X, y, tmp_path)
    P = model.predict_proba(X)
    assert f"{-log_loss(y, P, labels=model.classes_):.4f}" in page.text
    assert f"{accuracy_score(y, model.predict(X)):.4f}" in page.text
    found = content.collect(content.Source(model, X, y, None, {}, 1000, 0))
    for point in found["quality"]["hits"][:3]:
        expected = top_k_accuracy_score(y, P, k=point["k"], labels=model.classes_)
        np.testing.assert_allclose(point["hit"], expected)
    table = page.data["classes"]
    assert table["names"] == model.classes_.tolist()
    assert table["test"] == [int((y == name).sum()) for name in model.classes_]
    recall = [float((model.predict(X[y == n]) == n).mean()) for n in model.classes_]
    np.testing.assert_allclose(table["accuracy"], recall, atol=6e-4)
    assert table["train"] == model.class_count_.tolist()


def test_the_page_is_well_formed_and_self_contained(fitted, tmp_path):
    model, X, y = fitted
    page = page_of(model, X, y, tmp_path)
    assert page.open == []
    text = (tmp_path / "r.html").read_text("utf-8")
    addresses = set(re.findall(r'(?:src|href)="([^"]*)"', text))
    assert all(address.startswith("#") for address in addresses), addresses
    assert "@import" not in text
    assert "fetch(" not in text
    assert page.tags.count("figure") == page.tags.count("figcaption") == page.tags.count("details")


def test_names_with_markup_are_shown_not_run(fitted, tmp_path):
    model, X, y = fitted
    page = page_of(model, X, y, tmp_path, title=f"Of {HOSTILE}", facts={"from": HOSTILE})
    assert "img" not in page.tags
    assert page.text.count(HOSTILE) >= 2
    assert HOSTILE in page.data["classes"]["names"]


def test_of_many_rows_some_are_drawn_and_rows_keep_their_numbers(fitted, tmp_path):
    model, X, y = fitted
    X = sp.csr_matrix(X)
    page = page_of(model, X, y, tmp_path, max_rows=40)
    assert "drawn at random from 100" in page.text
    assert sum(page.data["classes"]["test"]) == 40
    source = content.Source(model, X, y, None, {}, 40, 0)
    pairs = content.collect(source)["confusions"]["pairs"]
    for pair in pairs:
        for example in pair["examples"]:
            assert y[example["row"]] == pair["truth"]


def test_a_stacked_model_has_its_calibration_before_and_after_on_the_page(tmp_path):
    rng = np.random.RandomState(0)
    X = rng.randn(300, 4)
    y = (X[:, :3] + rng.gumbel(size=(300, 3))).argmax(axis=1)
    model = LinearClassifier(random_state=0).fit(X[:200], y[:200])
    page = page_of(model, X[200:], y[200:], tmp_path)
    after = model.selection_.calibration_error
    assert "validation rows of the fit it was ridge path" in page.text
    assert f"before stacking, and {after:.3f} after it" in page.text
    again = bigcat.load_model(bigcat.save_model(model, tmp_path / "m.safetensors"))
    assert again.selection_.calibration_error == after
    pairs = content.collect(content.Source(model, X[200:], y[200:], None, {}, 99, 0))["confusions"]
    example = pairs["pairs"][0]["examples"][0]["features"]
    assert re.fullmatch(r"x\d = \S+ \(\+\S+\)(, x\d = \S+ \(\+\S+\))*", example)


def test_a_posterior_has_its_intervals_on_the_page(tmp_path):
    rng = np.random.RandomState(0)
    X = rng.randn(120, 3)
    y = X.argmax(axis=1)
    model = BayesianClassifier("independent-binary", random_state=0).fit(X[:80], y[:80])
    page = page_of(model, X[80:], y[80:], tmp_path)
    assert "Intervals hold 90% of the posterior" in page.text
    assert "so there is no curve" in page.text  # of an elbo over another scale, per class
    linear = page_of(LinearClassifier("gumbel", "exact", l2=1.0).fit(X, y), X, y, tmp_path).text
    assert "Intervals" not in linear
    assert "so there is no curve" not in linear


def test_nothing_is_written_where_something_is_wrong(fitted, tmp_path):
    model, X, y = fitted
    path = tmp_path / "r.html"
    with pytest.raises(ValueError, match="one label per row"):
        bigcat.report(model, X, y[:-1], path)
    with pytest.raises(ValueError, match="max_rows is 0"):
        bigcat.report(model, X, y, path, max_rows=0)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        bigcat.report(model, X, y, tmp_path / "nowhere" / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_the_commands(tmp_path, capsys):
    """`report` and `explain` of a model of text: words are the names of its features."""
    rows = [("cat", "meow purr"), ("dog", "woof bark"), ("cow", "moo graze")] * 12
    train = tmp_path / "train.tsv"
    train.write_text("".join(f"{label}\t{text}\n" for label, text in rows))
    model, page = tmp_path / "m.safetensors", tmp_path / "page.html"
    assert main(["fit", str(train), "--model", str(model), "--method", "exact", "--l2", "1"]) == 0
    assert main(["report", str(model), str(train), "--out", str(page), "--title", "Sounds"]) == 0
    text = page.read_text("utf-8")
    assert "<h1>Sounds</h1>" in text
    assert re.search(r"The fit took \d+ passes", text)  # a model file holds no seconds
    details = Page(text).data["details"]
    assert {name for one in details for name, _ in one["features"]} >= {"meow", "woof", "moo"}
    capsys.readouterr()
    words = ["explain", str(model), str(train), "--row", "1", "--against", "cat", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["label"], found["against"], found["truth"]) == ("dog", "cat", "dog")
    assert {one["feature"] for one in found["features"]} == {"woof", "bark"}
    assert main(["explain", str(model), str(train)]) == 0
    assert "meow" in capsys.readouterr().out
    assert main(["explain", str(model), str(train), "--row", "99"]) == 2
    assert "has 36 rows" in capsys.readouterr().err


SCRIPT = """<script>
const errors = []; window.onerror = (text) => { errors.push(text); };
const wait = (done) => document.documentElement.dataset.ready ? done() : setTimeout(wait, 50, done);
const type = (id, text) => { const box = document.getElementById(id); box.value = text;
  box.dispatchEvent(new Event(id === "pick" ? "change" : "input")); };
const first = () => [...document.querySelectorAll("#table tbody tr[aria-rowindex]")]
  .map((row) => row.cells[0].textContent);
addEventListener("load", () => wait(() => {
  const found = { all: first() };
  document.querySelector('[data-key="names"] button').click(); found.sorted = first();
  type("search", "b &"); found.searched = first();
  found.counted = document.getElementById("found").textContent;
  const before = document.documentElement.dataset.theme;
  document.getElementById("theme").click();
  found.switched = before !== document.documentElement.dataset.theme;
  type("pick", "$d"); found.details = document.getElementById("details").textContent;
  type("find", "é"); found.hover = document.getElementById("hover").textContent;
  found.errors = errors;
  document.title = JSON.stringify(found);
}));
</script>"""


@pytest.mark.slow
def test_the_page_at_work_in_a_browser(fitted, tmp_path):
    """Search, sort, details, map and theme in headless Chromium, without an error."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no Chromium; apt-get install chromium")
    model, X, y = fitted
    path = bigcat.report(model, X, y, tmp_path / "r.html")
    path.write_text(path.read_text("utf-8").replace("<head>", f"<head>{SCRIPT}", 1), "utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000"]
    done = subprocess.run(
        [chromium, *options, "--dump-dom", path.as_uri()], capture_output=True, timeout=120
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout.decode("utf-8"), re.DOTALL)
    assert title is not None
    found = json.loads(html.unescape(title[1]))
    counts = dict(zip(model.classes_, model.class_count_))
    assert found["all"] == sorted(model.classes_, key=lambda name: -counts[name])
    assert found["sorted"] == sorted(model.classes_, key=str.lower)
    assert found["searched"] == ["b & c"]
    assert found["counted"] == "1 class"
    assert found["switched"] is True
    assert "speak for and against it" in found["details"]
    assert found["hover"] == "1 class found"
    assert found["errors"] == []
