"""Our own methods: settings are the parameters of LinearClassifier.

Some are spelt as a configuration file can: `epochs` is max_epochs, `solver` may be a table of a
solver's name and its fields, a `rank` of 0 is None, and options of the solver and of the sampler
stand beside their names.
What is left to `method="auto"` has nothing else set; else all epochs are run.
"""

import numpy as np
from scoring import Model

from bigcat import LinearClassifier, samplers, solvers
from bigcat.combinations import resolve_method

WARM_UP_ROWS = 64


def _classifier(settings, **more):
    settings = {"random_state": 0, "progress": False} | settings | more
    if settings.get("method", "auto") != "auto":
        settings.setdefault("early_stopping", False)
    if "epochs" in settings:
        settings["max_epochs"] = settings.pop("epochs")
    if settings.get("rank") == 0:
        settings["rank"] = None
    solver = settings.pop("solver", None)
    fields = dict(solver) if isinstance(solver, dict) else {"name": solver}
    fields |= _taken(settings, "learning_rate", "batch_size")
    draws = {"name": settings.pop("sampler", None), **_taken(settings, "n_negatives")}
    draws |= _taken(settings, "exact_classes")
    usual = resolve_method(settings.get("method", "augment-reduce"))
    for part, named, registry in (
        ("solver", fields, solvers.REGISTRY),
        ("sampler", draws, samplers.REGISTRY),
    ):
        name = named.pop("name")
        if name or named:
            settings[part] = registry[name or getattr(usual, part)](**named)
    return LinearClassifier(**settings)


def _taken(settings, *names):
    return {name: settings.pop(name) for name in names if name in settings}


def _threads(rows, settings):
    """The settings, with no more threads than the run may use."""
    return settings | {"n_threads": min(settings.get("n_threads", rows.threads), rows.threads)}


def warm_up(rows, settings):
    """Compile on a few rows, which have the types of the real ones.

    What is chosen by the size of the data is compiled on all of them.
    """
    settings = _threads(rows, settings)
    if settings.get("method", "auto") == "auto":
        model = _classifier(settings, epochs=1).fit(rows.X, rows.y)
        return {"compile_seconds": model.history_[-1]["compile_seconds"]}
    some = np.unique(np.linspace(0, len(rows.y) - 1, WARM_UP_ROWS).astype(int))
    once = {"epochs": 1, "exact_classes": min(settings.get("exact_classes", 0), 8)}
    model = _classifier(settings, **once).fit(rows.X[some], rows.y[some])
    return {"compile_seconds": model.history_[-1]["compile_seconds"]}


def fit(rows, watch, **settings):
    cpu_of_epochs = []

    def on_epoch(info):
        seconds = watch.seconds() - info["compile_seconds"]
        cpu_of_epochs.append(watch.cpu_seconds() - info["compile_seconds"])
        with watch.pause():
            value = info["log_likelihood_of"](watch.X, watch.y)
        return watch.record(info["epoch"], seconds, value)

    model = _classifier(_threads(rows, settings), progress=[on_epoch])
    model.fit(rows.X, rows.y)
    compilation = model.history_[-1]["compile_seconds"]
    facts = {
        "fit_seconds": watch.seconds() - compilation,
        "fit_cpu_seconds": watch.cpu_seconds() - compilation,
        "cpu_seconds_of_epochs": cpu_of_epochs,
    }
    return Model(model.predict_log_proba, facts=facts)
