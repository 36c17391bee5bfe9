"""Choice models against published estimates, on the data sets that they were made from."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import reference.noise
import reference.probabilities
from bigcat import ChoiceModel

pd = pytest.importorskip("pandas")
FOLDER = Path(os.environ.get("BIGCAT_DATA", "")) / "choice"
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(
        not (os.environ.get("BIGCAT_DATA") and FOLDER.exists()),
        reason="BIGCAT_DATA names no folder with choice/",
    ),
]


def swissmetro():
    data = pd.read_csv(FOLDER / "swissmetro" / "swissmetro.dat.gz", sep="\t")
    data = data[data.PURPOSE.isin([1, 3]) & (data.CHOICE != 0)].copy()
    for name in ("TRAIN", "SM", "CAR"):
        data[f"{name}_TIME"] = data[f"{name}_TT"] / 100
        free = (data.GA == 0) if name != "CAR" else 1
        data[f"{name}_COST"] = data[f"{name}_CO"] * free / 100
    data["TRAIN_AV"] *= data.SP != 0
    data["CAR_AV"] *= data.SP != 0
    return data


def mode_canada():
    data = pd.read_csv(FOLDER / "modecanada" / "ModeCanada.csv.gz")
    data = data[(data.noalt == 4) & data.alt.isin(["car", "train", "air"])].copy()
    data = data[data.groupby("case").choice.transform("sum") == 1]
    return data.assign(time=data.ivt + data.ovt)


def heating():
    return pd.read_csv(FOLDER / "heating" / "Heating.csv.gz")


def fit_heating(utility, **options):
    return ChoiceModel(utility, **options).fit(
        heating(),
        choice="depvar",
        alternatives=["gc", "gr", "ec", "er", "hp"],
        columns="{variable}.{alternative}",
    )


def check(model, log_likelihood, digits, published):
    """Compare with ``{name: (estimate, standard error, decimals)}``."""
    assert round(model.log_likelihood_, digits) == log_likelihood
    for name, (estimate, error, decimals) in published.items():
        k = model.coef_names_.index(name)
        unit = 0.5001 * 10.0**-decimals
        assert abs(model.coef_[k] - estimate) <= unit, name
        assert abs(model.std_errors_[k] - error) <= unit, name


def test_swissmetro_of_biogeme():
    model = ChoiceModel("COST + TIME", reference=2).fit(
        swissmetro(),
        choice="CHOICE",
        alternatives={1: "TRAIN", 2: "SM", 3: "CAR"},
        columns="{alternative}_{variable}",
        available="{alternative}_AV",
    )
    assert round(model.null_log_likelihood_, 3) == -6964.663
    published = {
        "constant:3": (-0.1546, 0.0432, 4),
        "constant:1": (-0.7012, 0.0549, 4),
        "COST": (-1.0838, 0.0518, 4),
        "TIME": (-1.2779, 0.0569, 4),
    }
    check(model, -5331.252, 3, published)
    robust = dict(zip(model.coef_names_, model.robust_std_errors_.round(4)))
    assert robust["constant:3"] == 0.0582
    assert robust["constant:1"] == 0.0826
    assert robust["COST"] == 0.0682
    assert round(robust["TIME"], 3) == 0.104


def test_mode_canada_of_mlogit():
    model = ChoiceModel("cost + freq | income | time", reference="car")
    model.fit(mode_canada(), choice="choice", case="case", alternative="alt")
    published = {
        "constant:train": (-0.97034440, 0.26513065, 8),
        "constant:air": (-1.89856552, 0.68414300, 8),
        "cost": (-0.02849715, 0.00655909, 8),
        "freq": (0.07402902, 0.00473270, 8),
        "income:train": (-0.00646892, 0.00310366, 8),
        "income:air": (0.02824632, 0.00365435, 8),
        "time:car": (-0.01402405, 0.00138047, 8),
        "time:train": (-0.01096877, 0.00081834, 8),
        "time:air": (-0.01755120, 0.00399181, 8),
    }
    check(model, -1951.344, 3, published)
    mcfadden = 1.0 - model.log_likelihood_ / model.constants_log_likelihood_
    assert round(mcfadden, 5) == 0.31221
    worth = model.willingness_to_pay("cost")
    per_hour = dict(zip(worth["coefficient"], 60.0 * worth["estimate"]))
    assert [round(per_hour[f"time:{m}"], 1) for m in ("car", "train", "air")] == [29.5, 23.1, 37.0]


def test_heating_of_mlogit():
    model = fit_heating(["ic", "oc"])
    published = {"ic": (-0.0062319, 0.0003528, 7), "oc": (-0.0045801, 0.0003222, 7)}
    check(model, -1095.237, 3, published)
    np.testing.assert_allclose(model.robust_std_errors_, [0.000368, 0.000307], atol=5e-7)
    assert round(model.null_log_likelihood_, 3) == -1448.494


def test_heating_with_constants_of_mlogit():
    model = fit_heating("ic + oc", reference="hp")
    published = {
        "constant:ec": (1.6588459, 0.4484194, 7),
        "constant:er": (1.8534370, 0.3619551, 7),
        "constant:gc": (1.7109793, 0.2267421, 7),
        "constant:gr": (0.3082633, 0.2065922, 7),
        "ic": (-0.0015332, 0.0006209, 7),
        "oc": (-0.0069964, 0.0015541, 7),
    }
    check(model, -1008.229, 3, published)
    worth = model.willingness_to_pay("ic")
    assert round(float(worth["estimate"][0]), 3) == 4.563
    test = model.likelihood_ratio_test(fit_heating(["ic", "oc"]))
    assert test.df == 4
    assert round(test.statistic, 2) == round(2 * (1095.2371 - 1008.2287), 2)


def test_train_of_pylogit():
    data = pd.read_csv(FOLDER / "train" / "Train.csv.gz")
    for k in "12":
        data[f"price{k}"] *= 2.20371 / 100
        data[f"time{k}"] /= 60
    model = ChoiceModel(["price", "time", "change", "comfort"]).fit(
        data,
        choice="choice",
        alternatives={"choice1": "1", "choice2": "2"},
        columns="{variable}{alternative}",
    )
    assert round(model.log_likelihood_, 3) == -1724.150
    assert model.coef_.round(4).tolist() == [-0.0674, -1.7206, -0.3263, -0.9457]
    np.testing.assert_allclose(model.std_errors_, [0.003, 0.160, 0.059, 0.065], atol=1e-3)


def detergent():
    data = pd.read_csv(FOLDER.parent / "detergent" / "detergent.csv")
    labels = ["Tide", "Wisk", "EraPlus", "Surf", "Solo", "All"]
    prices = {f"{name}Price": np.log(data[f"{name}Price"]) for name in labels}
    return data.assign(**prices), labels, "{alternative}{variable}", "label", ["Price"]


def heating_wide():
    return (
        heating(),
        ["gc", "gr", "ec", "er", "hp"],
        "{variable}.{alternative}",
        "depvar",
        ["ic", "oc"],
    )


@pytest.mark.parametrize("read", [detergent, heating_wide])
def test_probits_of_real_choices_are_those_of_the_reference_twin(read):
    """The log-likelihood is the twin's, and the twin's gradient at the estimate is zero."""
    data, labels, pattern, choice, names = read()
    data = data[:100]
    model = ChoiceModel(names, constants=True, noise="gaussian")
    model.fit(data, choice=choice, alternatives=labels, columns=pattern)
    places = [[pattern.format(variable=v, alternative=k) for k in labels] for v in names]
    X = np.stack([data[columns].to_numpy(float) for columns in places], axis=2)
    codes = [labels.index(label) for label in data[choice]]

    def twin(coef):
        by_name = dict(zip(model.coef_names_, coef))
        V = X @ coef[: len(names)] + [by_name.get(f"constant:{label}", 0.0) for label in labels]
        found = [
            reference.probabilities.class_log_probabilities(reference.noise.GAUSSIAN, row)[y]
            for row, y in zip(V, codes)
        ]
        return float(np.sum(found))

    assert model.log_likelihood_ == pytest.approx(twin(model.coef_), abs=1e-6)
    for k, error in enumerate(model.std_errors_):
        step = 0.01 * error * np.eye(len(model.coef_))[k]
        gradient = (twin(model.coef_ + step) - twin(model.coef_ - step)) / 0.02
        assert abs(gradient) < 1e-3  # log-likelihood per standard error


RESTAURANTS = {
    "rating": 0.75, "price": -0.4, "category_Chinese": 0.75, "category_Japanese": 1.25,
    "category_Korean": 0.75, "category_Indian": 1.0, "category_French": 0.75,
    "category_Mexican": 1.25, "category_Lebanese": 0.75, "category_Ethiopian": 0.5,
    "log_dist": -0.6,
}  # fmt: skip


def fit_restaurants(choice="logit_0", **options):
    """Return the model, and how many standard errors each estimate is from its true value."""
    folder = FOLDER / "restaurants"
    stores = pd.read_csv(folder / "restaurants.dat.gz")
    people = pd.read_csv(folder / "restaurants_obs_choice.dat.gz")

    def log_distance(data):
        north = data["user_lat"] - data["rest_lat"]
        return np.log(np.hypot(north, data["user_lon"] - data["rest_lon"]))

    utility = {name: name for name in RESTAURANTS if name != "log_dist"}
    model = ChoiceModel(utility | {"log_dist": log_distance}, n_sampled=20, **options)
    model.fit(people, alternatives=stores, choice=choice, alternative="ID")
    true = np.array([RESTAURANTS[name] for name in model.coef_names_])
    return model, (model.coef_ - true) / model.std_errors_


@pytest.mark.parametrize("estimation", ["sampled", "mcfadden"])
def test_restaurants_recover_the_true_values_from_sampled_alternatives(estimation):
    _, errors = fit_restaurants(estimation=estimation, random_state=0)
    assert np.sum(errors**2) < 24.7  # the 99 % point of chi-squared with 11 degrees of freedom


def test_restaurants_of_five_samples_recover_the_true_values():
    """Expect 52 of 55 estimates within two standard errors, with a deviation of 1.5."""
    models, errors = zip(*(fit_restaurants(f"logit_{k}") for k in range(5)))
    assert round(models[0].log_likelihood_, 4) == -40812.8787
    assert np.sum(np.abs(errors) < 2.0) >= 49
    assert np.max(np.abs(errors)) < 3.0
    assert all(np.sum(np.square(part)) < 24.7 for part in errors)
