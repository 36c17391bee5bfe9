"""Formulas: a classifier for data frames, as in R and statsmodels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from bigcat.checks import check_choice
from bigcat.estimators.linear import LinearClassifier
from bigcat.inference import ResultsTable

__all__ = ["FormulaClassifier", "from_formula"]


def from_formula(
    formula: str, data: Any, estimator: Any = None, *, missing: str = "raise"
) -> FormulaClassifier:
    """Fit a classifier to the columns of a data frame; needs the extra ``formula``.

    Parameters
    ----------
    formula : str
        Such as ``"party ~ age + C(region) + age:income"``, in the language of formulaic, which is
        that of R.  On the left is the column of the labels.
    data : pandas.DataFrame
    estimator : LinearClassifier or BayesianClassifier, optional
        `LinearClassifier` with ``l2=0`` by default, whose `summary` is the classical table.
    missing : {"raise", "drop"}, default="raise"
        Raise for missing values in the columns of the formula, or leave out their rows.

    Returns
    -------
    FormulaClassifier
    """
    return FormulaClassifier(formula, estimator, missing=missing).fit(data)


class FormulaClassifier(ClassifierMixin, BaseEstimator):
    """Classifier whose rows are data frames and whose features are terms of a formula.

    Columns of strings and categories become a column per level but the first, the reference level;
    ``C(region, contr.treatment("north"))`` names another one.  An intercept is fitted unless the
    formula says ``0 +`` or ``- 1``.

    Parameters
    ----------
    formula, estimator, missing : as in `from_formula`
        Missing values in rows to predict always raise.

    Attributes
    ----------
    estimator_ : LinearClassifier or BayesianClassifier
        The fitted one; `model_matrix` makes rows for its other methods.
    classes_ : array of shape (n_classes,)

    Examples
    --------
    >>> import numpy as np, pandas, bigcat
    >>> rng = np.random.default_rng(0)
    >>> data = pandas.DataFrame(
    ...     {"age": rng.uniform(20, 80, 300), "region": rng.choice(["north", "south"], 300)}
    ... )
    >>> data["party"] = np.where(rng.logistic(size=300) < data["age"] / 20 - 2, "blue", "red")
    >>> model = bigcat.from_formula("party ~ age + C(region)", data)
    >>> model.summary(data)["feature"].tolist()
    ['age', 'C(region)[T.south]', 'intercept']
    >>> model.predict(data[:2])
    array(['blue', 'red'], dtype=object)
    """

    def __init__(self, formula: str, estimator: Any = None, *, missing: str = "raise") -> None:
        self.formula = formula
        self.estimator = estimator
        self.missing = missing

    def fit(self, data: Any, y: Any = None) -> FormulaClassifier:
        """Fit to the rows of a pandas.DataFrame; `y` is ignored, labels are a column."""
        check_choice("missing", self.missing, ("raise", "drop"))
        label, terms = _parsed(self.formula)
        if label not in data:
            raise ValueError(
                f"data has no column {label!r}, the labels of {self.formula!r}; it has "
                f"{', '.join(map(str, data.columns))}"
            )
        data = self._complete(data, [label, *terms.required_variables])
        matrix = terms.get_model_matrix(data, na_action="raise")
        estimator = LinearClassifier(l2=0) if self.estimator is None else clone(self.estimator)
        estimator.set_params(fit_intercept="Intercept" in matrix.columns)
        estimator.fit(_features(matrix), np.asarray(data[label]))
        self._label, self._terms = label, matrix.model_spec
        self.estimator_ = estimator
        self.classes_: np.ndarray = estimator.classes_
        return self

    def model_matrix(self, data: Any) -> Any:
        """Return the features of the rows as a pandas.DataFrame, without the intercept."""
        check_is_fitted(self)
        from formulaic.errors import DataMismatchWarning

        _check_missing(data, self._terms.required_variables)
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataMismatchWarning)
            try:
                return _features(self._terms.get_model_matrix(data, na_action="raise"))
            except DataMismatchWarning as mismatch:
                unseen = str(mismatch).partition("{")[2].partition("}")[0]
                raise ValueError(
                    f"a categorical column has levels that the rows of the fit have not: {unseen}; "
                    "drop such rows, or fit to rows with all levels"
                ) from mismatch

    def predict(self, data: Any) -> np.ndarray:
        """Return the most probable class of each row."""
        X = self.model_matrix(data)
        found: np.ndarray = self.estimator_.predict(X)
        return found

    def predict_proba(self, data: Any) -> np.ndarray:
        """Return the probabilities of all classes, (n, n_classes)."""
        X = self.model_matrix(data)
        found: np.ndarray = self.estimator_.predict_proba(X)
        return found

    def score(self, data: Any, y: Any = None) -> float:
        """Return the accuracy; `y` is ignored, labels are a column."""
        predicted = self.predict(data)
        return float(accuracy_score(np.asarray(data[self._label]), predicted))

    def summary(self, data: Any = None, **options: Any) -> ResultsTable:
        """Return the table of the estimator, with the terms of the formula as features.

        Parameters
        ----------
        data : pandas.DataFrame, optional
            The rows of the fit, which `LinearClassifier` needs for standard errors.
        **options
            Such as ``base``, ``level`` and ``robust``; see the `summary` of the estimator.
        """
        check_is_fitted(self)
        rows = () if data is None else self._rows(data)
        table: ResultsTable = self.estimator_.summary(*rows, **options)
        table.title = self.formula
        return table

    def marginal_effects(self, data: Any, **options: Any) -> ResultsTable:
        """Return average marginal effects; see the method of the estimator."""
        check_is_fitted(self)
        X, labels = self._rows(data)
        rows = (X, labels) if isinstance(self.estimator_, LinearClassifier) else (X,)
        table: ResultsTable = self.estimator_.marginal_effects(*rows, **options)
        return table

    def _rows(self, data: Any) -> tuple[Any, np.ndarray]:
        data = self._complete(data, [self._label, *self._terms.required_variables])
        return self.model_matrix(data), np.asarray(data[self._label])

    def _complete(self, data: Any, needed: list[str]) -> Any:
        """Return the rows without missing values."""
        if self.missing == "drop":
            data = data.dropna(subset=[name for name in needed if name in data])
        _check_missing(data, needed)
        return data


def _parsed(formula: str) -> tuple[str, Any]:
    """Return the column of the labels and the terms on the right."""
    try:
        from formulaic import Formula
    except ImportError as error:
        raise ImportError("formulas need formulaic: pip install 'bigcat[formula]'") from error
    parsed = Formula(formula)
    left: Any = getattr(parsed, "lhs", ())
    labels = [str(term).strip("`") for term in left]
    if len(labels) != 1 or set(labels) != set(left.required_variables):
        raise ValueError(
            f"the left side of {formula!r} must be the name of one column, the labels, as in "
            "'party ~ age'; make a column of any expression first"
        )
    return labels[0], parsed.rhs


def _features(matrix: Any) -> Any:
    return matrix.drop(columns="Intercept", errors="ignore").astype(float)


def _check_missing(data: Any, variables: Any) -> None:
    counts = {name: int(data[name].isna().sum()) for name in sorted(variables) if name in data}
    missing = [f"{name} ({count:,})" for name, count in counts.items() if count]
    if missing:
        raise ValueError(
            f"data has missing values in {', '.join(missing)}; impute them or drop their rows, "
            "for fits by missing='drop'"
        )
