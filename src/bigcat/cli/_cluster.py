"""``--dask``: the fit on a cluster, on the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bigcat.data import Dataset, Shards
    from bigcat.estimators import LinearClassifier


def add_option(training: argparse._ArgumentGroup) -> None:
    training.add_argument(
        "--dask",
        metavar="SCHEDULER",
        help="fit on a Dask cluster: the address of its scheduler, or local[:N] for N processes of "
        "this machine; TRAIN is then a folder of `bigcat convert` that all workers see "
        "(docs/distributed.md)",
    )


def check(arguments: argparse.Namespace) -> None:
    """Raise for what does not go together, before any work."""
    if arguments.dask and arguments.bayesian:
        raise ValueError("--dask fits a LinearClassifier; leave --bayesian or --dask out")


def fit(
    address: str, estimator: LinearClassifier, train: Dataset | Shards, resume: bool
) -> LinearClassifier:
    """The estimator, fitted on a cluster."""
    from bigcat import dask
    from bigcat.data import Shards

    if not isinstance(train, Shards):
        raise ValueError(
            "--dask needs rows that every worker can read: `bigcat convert TRAIN --out FOLDER` "
            "makes a folder of them; give that folder as TRAIN"
        )
    dask.LinearClassifier  # noqa: B018  # says which extra is missing, before any worker starts
    from bigcat.dask.cluster import connected

    parameters: dict[str, Any] = estimator.get_params(deep=False)
    with connected(address) as client:
        model = dask.LinearClassifier(client=client, **parameters)
        local: LinearClassifier = model.fit(train, resume=resume).to_local()
        return local
