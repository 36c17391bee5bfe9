"""Access to the classifier at the end of a scikit-learn pipeline or search.

scikit-learn forwards only the methods it knows, and not `predict_top_k` or `log_proba_of`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Unwrapped", "apart", "predict_top_k", "unwrapped"]


class Unwrapped:
    """Fitted classifier with the preprocessing steps before it.

    Parameters
    ----------
    classifier : object
        Model with ``classes_``, ``predict_top_k`` and ``log_proba_of``.
    steps : list of (str, object with ``transform``)
        Preprocessing steps, in order.
    name : str
        Name of the last step, the classifier.
    """

    def __init__(self, classifier: Any, steps: list[tuple[str, Any]], name: str) -> None:
        self.classifier, self.steps, self.name = classifier, steps, name
        self.classes_: np.ndarray = classifier.classes_

    @property
    def feature_names(self) -> Any:
        """Names of the features that the last transformer makes; None where it has none."""
        names: Any = None
        for _, step in self.steps:
            try:
                of_step = step.get_feature_names_out
                names = of_step() if names is None else of_step(names)
            except (AttributeError, ValueError):  # of a HashingVectorizer
                names = None
        return names

    def transform(self, X: Any) -> Any:
        """Apply the preprocessing steps to rows."""
        for _, step in self.steps:
            X = step.transform(X)
        return X

    def predict_top_k(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """Return the `k` most probable classes of each row and their log-probabilities."""
        found: tuple[np.ndarray, np.ndarray] = self.classifier.predict_top_k(self.transform(X), k)
        return found

    def log_proba_of(self, X: Any, y: ArrayLike) -> np.ndarray:
        """Return the log-probability of one class per row."""
        found: np.ndarray = self.classifier.log_proba_of(self.transform(X), y)
        return found


def apart(model: Any) -> Unwrapped:
    """Return the classifier inside a pipeline or a search, and the steps before it.

    Examples
    --------
    >>> import numpy as np, bigcat
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.eye(3).repeat(20, axis=0)
    >>> pipe = make_pipeline(StandardScaler(), bigcat.LinearClassifier(random_state=0))
    >>> found = apart(pipe.fit(X, X.argmax(axis=1)))
    >>> [name for name, _ in found.steps], found.classes_.tolist()
    (['standardscaler'], [0, 1, 2])
    """
    steps: list[tuple[str, Any]] = []
    inner, name = model, "classifier"
    while not hasattr(inner, "predict_top_k"):
        if hasattr(inner, "best_estimator_"):
            inner = inner.best_estimator_
        elif hasattr(inner, "steps"):
            *before, (name, inner) = inner.steps
            steps += [step for step in before if step[1] not in (None, "passthrough")]
        else:
            raise TypeError(
                f"a {type(inner).__name__} has no predict_top_k; give a fitted classifier of "
                "bigcat, a pipeline that ends in one, or a fitted search over either"
            )
    if not hasattr(inner, "classes_"):
        raise ValueError(f"the {type(inner).__name__} is not fitted; call fit first")
    return Unwrapped(inner, steps, name)


def unwrapped(model: Any) -> Any:
    """Return the model if it has `predict_top_k`, else the `Unwrapped` classifier inside it."""
    found = apart(model)
    return found if found.steps else found.classifier


def predict_top_k(model: Any, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return the `k` most probable classes of each row, also of a pipeline or a search.

    Parameters
    ----------
    model : fitted classifier of bigcat, pipeline that ends in one, or search over either
    X : array-like
        Rows in the form that the model was fitted with.
    k : int, default=5
        Number of classes per row.

    Returns
    -------
    classes : array of shape (n, k)
    log_probabilities : array of shape (n, k)

    Examples
    --------
    >>> import bigcat
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> texts, labels = ["soft purr", "loud bark"] * 20, ["cat", "dog"] * 20
    >>> model = make_pipeline(CountVectorizer(), bigcat.LinearClassifier(random_state=0))
    >>> classes, _ = bigcat.predict_top_k(model.fit(texts, labels), ["purr"], k=2)
    >>> classes.tolist()
    [['cat', 'dog']]
    """
    found: tuple[np.ndarray, np.ndarray] = unwrapped(model).predict_top_k(X, k)
    return found
