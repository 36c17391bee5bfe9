"""Starting up is quick, because nothing heavy is imported before it is used.

Processor seconds are counted: the wall clock would count what else the machine does.
"""

import importlib
import json
import pkgutil
import subprocess
import sys

import pytest

import bigcat.estimators

LIMIT_SECONDS = 0.3
HEAVY = ("numba", "matplotlib", "sklearn", "scipy", "pandas")

SCRIPT = """
import time
start = time.process_time()
{work}
seconds = time.process_time() - start
import json, sys
print(json.dumps([seconds, sorted(sys.modules)]))
"""


def run(work):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(work=work)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_the_import_is_quick_and_light():
    best = min(run("import bigcat")[0] for _ in range(4))
    modules = run("import bigcat")[1]
    assert best < LIMIT_SECONDS
    assert "bigcat" in modules
    assert not [name for name in HEAVY if name in modules]


IRIS = """
from sklearn.datasets import load_iris
from bigcat import LinearClassifier
X, y = load_iris(return_X_y=True)
model = LinearClassifier(random_state=0).fit(X, y)
assert model.score(X, y) > 0.9
model.predict_proba(X), model.predict_top_k(X, k=2), model.log_proba_of(X, y)
"""


def test_a_small_fit_and_its_predictions_import_no_numba():
    modules = run(IRIS)[1]
    assert "bigcat.estimators.linear" in modules
    assert not [name for name in modules if name.startswith(("numba", "llvmlite"))]


def test_a_linear_fit_imports_no_posteriors():
    modules = run("import bigcat; bigcat.LinearClassifier")[1]
    assert "bigcat.estimators.linear" in modules
    assert not [name for name in modules if name.startswith("bigcat.bayes")]
    with pytest.raises(AttributeError, match="has no attribute 'Nobody'"):
        bigcat.estimators.Nobody


def test_public_names_are_listed_and_found():
    import bigcat

    assert set(bigcat.__all__) == set(dir(bigcat))
    for name in bigcat.__all__:
        assert getattr(bigcat, name) is not None
    with pytest.raises(AttributeError, match="module 'bigcat' has no attribute 'nothing'"):
        bigcat.nothing


@pytest.mark.parametrize("package", ["bigcat", "bigcat.data"])
def test_no_public_name_is_that_of_a_module(package):
    """Whoever imported the module first would find it in the place of the function."""
    found = importlib.import_module(package)
    modules = {module.name for module in pkgutil.iter_modules(found.__path__)}
    assert not modules & set(found._HOME)
