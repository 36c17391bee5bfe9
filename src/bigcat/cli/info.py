"""``bigcat info``: what is in a model file, and whether it is as it was written."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bigcat.cli import _options, _output

HELP = "say what is in a model file, and check that every byte is as it was written"
#: Names of columns that are shown.
MAX_NAMES = 8


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument(
        "--quick", action="store_true", help="read the header alone; digests are not checked"
    )
    _options.add(parser, "json")


def run(arguments: argparse.Namespace) -> int:
    path = _options.existing(arguments.model, kind="model file")

    from bigcat import files

    header = files.read_header(path)
    if not arguments.quick:
        files.check_model_file(path)
    report = _report(path, header, verified=not arguments.quick)
    _output.show(arguments, report | ({"header": header} if arguments.json else {}), _rows(report))
    return 0


def _report(path: Path, header: dict[str, Any], verified: bool) -> dict[str, Any]:
    shapes = {name: tensor["shape"] for name, tensor in header["tensors"].items()}
    noise, vectorizer, fitted = header["noise"], header["vectorizer"], header["fitted"]
    linear, posterior = header["linear"] or {}, header["posterior"] or {}
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "estimator": header["estimator"],
        "bigcat_version": header["bigcat_version"],
        "classes": shapes["classes" if "classes" in shapes else "classes.ends"][0],
        "labels": "numbers" if "classes" in shapes else "strings",
        "features": fitted["n_features_in"],
        "named_features": fitted["feature_names_in"] is not None,
        "noise": None if noise is None else noise["name"],
        "rank": linear.get("rank"),
        "pairs": shapes.get("pair_coef", [0])[0],
        "weights_dtype": linear.get("dtype"),
        "posterior": posterior.get("kind"),
        "covariance": posterior.get("covariance"),
        "n_iter": fitted["n_iter"],
        "vectorizer": None if vectorizer is None else vectorizer["kind"],
        "columns": None if header["columns"] is None else header["columns"]["names"],
        "label_column": header["extra"].get("label_column"),
        "extra": sorted(header["extra"]),
        "verified": verified,
    }


def _rows(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    rows = [
        ("model", _output.size(report["bytes"]), report["model"]),
        ("estimator", report["estimator"], f"written by bigcat {report['bigcat_version']}"),
        ("classes", f"{report['classes']:,}", f"labels are {report['labels']}"),
        ("features", f"{report['features']:,}", "with names" if report["named_features"] else ""),
    ]
    if report["weights_dtype"] is not None:
        rows.append(("weights", report["weights_dtype"], _weights(report)))
    else:
        rows.append(("posterior", report["posterior"], f"covariance: {report['covariance']}"))
    for name in ("noise", "vectorizer"):
        if report[name] is not None:
            rows.append((name, report[name], ""))
    if report["columns"] is not None:
        names = report["columns"]
        some = ", ".join(names[:MAX_NAMES] + ["..."] * (len(names) > MAX_NAMES))
        rows.append(("columns", f"{len(names):,}", f"{some}; labels in {report['label_column']}"))
    if report["extra"]:
        rows.append(("extra", str(len(report["extra"])), ", ".join(report["extra"])))
    verdict = ("not checked", "leave out --quick to read the whole file")
    if report["verified"]:
        verdict = ("right", "every byte is as it was written")
    return [*rows, ("digests", *verdict)]


def _weights(report: dict[str, Any]) -> str:
    if report["rank"] is None:
        return "full rank"
    kinds = [f"rank {report['rank']}"] if report["rank"] else []
    if report["pairs"]:
        kinds.append(f"{report['pairs']:,} of single pairs of class and feature")
    return ", ".join(kinds)
