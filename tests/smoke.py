"""Smoke test for a fresh environment with the package and no developer tools.

Run by `make package` with ``python -I``, far from the checkout, so that the installed package is
what is tested.
"""

import json
import os
import runpy
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np
import scipy.sparse

import bigcat


def command(*arguments: str) -> str:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "bigcat"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def compiles_nothing() -> None:
    """Fit and predict in fresh processes without a cache, by the machine code of the wheel."""
    program = Path(__file__).with_name("start_up.py")
    cases = runpy.run_path(str(program))["CASES"]
    for case in cases:
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, str(program), case],
                env={**os.environ, "NUMBA_CACHE_DIR": cache},
                stdout=subprocess.PIPE,
                check=True,
            )
        compiled = json.loads(done.stdout)["names"]
        assert not compiled, f"{case}: {compiled}"


def main() -> None:
    assert "site-packages" in bigcat.__file__, bigcat.__file__
    assert bigcat.__version__ == metadata.version("bigcat")
    assert Path(bigcat.__file__).with_name("py.typed").exists()
    for name in bigcat.__all__:
        getattr(bigcat, name)

    rng = np.random.default_rng(0)
    y = np.arange(300) % 10
    X = rng.standard_normal((300, 12))
    X[np.arange(300), y] += 4.0
    words = np.array(["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay"])[y]

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rows in (X, scipy.sparse.csr_array(X)):
            model = bigcat.LinearClassifier(random_state=0).fit(rows, words)
            assert model.score(rows, words) > 0.9
            assert model.predict_top_k(rows[:2], k=3)[0].shape == (2, 3)
            bigcat.save_model(model, folder / "linear")
            np.testing.assert_array_equal(
                bigcat.load_model(folder / "linear").predict_proba(rows), model.predict_proba(rows)
            )
        posterior = bigcat.BayesianClassifier(random_state=0).fit(X[:, :3], y % 3)
        bigcat.save_model(posterior, folder / "posterior")
        low, high = bigcat.load_model(folder / "posterior").predict_interval(X[:2, :3])
        assert (low <= high).all()
        lines = [f"{word}\tthe {word} and a {word}" for word in words]
        (folder / "train.tsv").write_text("\n".join(lines) + "\n")
        command("fit", str(folder / "train.tsv"), "--model", str(folder / "text"))
        assert "LinearClassifier" in command("info", str(folder / "text"))
        command("evaluate", str(folder / "text"), str(folder / "train.tsv"))
        assert bigcat.__version__ in command("--version")
        python = [sys.executable, "-I", "-m", "bigcat", "--version"]
        assert bigcat.__version__ in subprocess.run(python, capture_output=True, text=True).stdout
    if Path(bigcat.__file__).with_name("_kernels").exists():
        compiles_nothing()
    print(
        f"bigcat {bigcat.__version__} works on Python {sys.version.split()[0]}, {bigcat.__file__}"
    )


if __name__ == "__main__":
    main()
