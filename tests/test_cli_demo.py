"""The first thing that a newcomer runs."""

import json

import numpy as np
import pytest

from bigcat.cli import demo, main


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(
        demo, "QUICK_CORPUS", {"max_rows": 12_000, "max_features": 600, "min_classes": 50}
    )


def test_quick_demo_as_a_person_sees_it(capsys, tmp_path):
    folder = tmp_path / "demo"
    assert main(["demo", "--quick", "--output", str(folder), "--save-model"]) == 0
    out = capsys.readouterr().out
    for text in ("log-likelihood", "class frequencies alone", "accuracy", "hit@5"):
        assert text in out
    for text in ("drawn at random", "most probable", "Try next", "bigcat methods"):
        assert text in out
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    results = json.loads((folder / "results.json").read_text())
    assert sorted(path.name for path in folder.iterdir()) == [
        "curve.png",
        "heldout.npz",
        "model.safetensors",
        "report.html",
        "results.json",
    ]

    command = next(line for line in out.splitlines() if "bigcat predict" in line).split()
    assert main(command[1:]) == 0, "the command that the demo proposes fails"
    assert len(capsys.readouterr().out.splitlines()) == results["rows"]
    words = ["evaluate", str(folder / "model.safetensors"), str(folder / "heldout.npz"), "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose(found["log_likelihood"], results["log_likelihood"], rtol=1e-6)
