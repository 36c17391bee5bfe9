"""Dense simulated rows of devices: pictures, sounds, windows of sensors, scans, vectors."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter1d

from benchmarks.field.dense import N_TEST, Draw, Rows, labels, zipf
from benchmarks.field.problem import Data, Problem, from_series
from benchmarks.field.repeated import DrawOfPeople


def photos(side: int, n_classes: int, contrast: float) -> Draw:
    """Whole numbers from 0 to 255 of three colours: textures of a class, lighter or darker."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.3)
        shape = (side, side, 3)
        waves = np.stack(np.meshgrid(*2 * [np.arange(side)]), axis=-1)
        turns = rng.uniform(0.2, 1.5, (n_classes, 2)) @ waves.reshape(-1, 2).T
        phase = rng.uniform(0.0, 0.8, (n, 1))
        texture = np.cos(turns[y] + phase).reshape(n, side, side, 1)
        colour = rng.standard_normal((n_classes, 3))[y][:, None, None, :]
        light = rng.normal(120.0, 35.0, (n, 1, 1, 1))
        X = light + contrast * 40.0 * (texture + colour) + 30.0 * rng.standard_normal((n, *shape))
        return X.clip(0.0, 255.0).astype(np.uint8).reshape(n, -1), y

    return draw


def sounds(n_bands: int, n_frames: int, n_classes: int, quiet: float) -> Draw:
    """Decibels below full scale by band and moment, floored at -80; words begin when they like."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes)
        words = gaussian_filter1d(rng.standard_normal((n_classes, n_frames, n_bands)), 2.0, axis=1)
        begin = rng.integers(-3, 4, size=n)
        moments = (np.arange(n_frames) - begin[:, None]) % n_frames
        level = 25.0 * words[y[:, None], moments] + 8.0 * rng.standard_normal((n, 1, 1))
        level += 6.0 * rng.standard_normal((n, n_frames, n_bands)) - quiet
        return level.clip(-80.0, 0.0).reshape(n, -1).astype(np.float32), y

    return draw


def activities(n_axes: int, n_classes: int, each: float, distance: float) -> DrawOfPeople:
    """Mean, deviation, extremes and energy of each axis in a window; persons differ."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        counts = 1 + rng.poisson(each - 1.0, size=n)
        person = np.repeat(np.arange(n), counts)[:n]
        y = labels(rng, n, n_classes, 0.3)
        holding = rng.standard_normal((person[-1] + 1, n_axes))
        means = 0.5 * distance * rng.standard_normal((n_classes, n_axes))[y] + holding[person]
        means += 0.3 * rng.standard_normal(means.shape)
        effort = np.exp(distance * rng.standard_normal((n_classes, n_axes))[y] - 1.0)
        effort *= np.exp(0.4 * rng.standard_normal((n, n_axes)))
        widest = effort * rng.uniform(1.5, 3.5, (2, n, n_axes))
        columns = [means, effort, means - widest[0], means + widest[1], means**2 + effort**2]
        return 9.81 * np.hstack(columns), y, person

    return draw


def series(family: str, variant: str, draw: Draw, n: int, n_test: int = N_TEST) -> Problem:
    """Return a problem of one series: its first rows are for training, its last for the test."""

    def make(rng: np.random.Generator) -> Data:
        X, y = draw(rng, n + n_test)
        return from_series(X, y, n_test, rng)

    return Problem(family, variant, make)


def regimes(n_features: int, n_classes: int, stay: float, memory: float, distance: float) -> Draw:
    """A plant in one regime after another, for `1 / (1 - stay)` rows in the mean; noise lasts."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        change = rng.random(n) > stay
        change[0] = True
        regime = rng.choice(n_classes, size=change.sum(), p=zipf(n_classes, 0.5))
        y = regime[np.cumsum(change) - 1]
        noise = rng.standard_normal((n, n_features))
        for t in range(1, n):
            noise[t] = memory * noise[t - 1] + np.sqrt(1.0 - memory**2) * noise[t]
        X = distance * rng.standard_normal((n_classes, n_features))[y] + noise
        return 10.0 ** rng.uniform(-1.0, 3.0, n_features) * (X + 5.0), y

    return draw


def scans(n_features: int, n_classes: int, effect: float, n_sites: int = 4) -> Draw:
    """Many more voxels than persons: smooth maps, with smooth effects of class and scanner."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes)

        def maps(count: int) -> np.ndarray:
            smooth = gaussian_filter1d(rng.standard_normal((count, n_features)), 12.0, axis=1)
            return smooth / smooth.std()

        site = rng.integers(n_sites, size=n)
        X = maps(n) + effect * maps(n_classes)[y] + maps(n_sites)[site]
        return 100.0 + 15.0 * (X + 0.5 * rng.standard_normal(X.shape)), y

    return draw


def averages(n_features: int, n_classes: int, signal: float, n_words: int = 4_000) -> Draw:
    """Means of the vectors of a text's words: the longer a text, the nearer to the common mean."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.6)
        deviations = np.arange(1, n_features + 1) ** -0.4
        vectors = deviations * (0.5 + rng.standard_normal((n_words, n_features)))
        own = rng.integers(n_words, size=(n_classes, 40))
        lengths = 2 + rng.geometric(0.08, size=n)
        row = np.repeat(np.arange(n), lengths)
        words = rng.choice(n_words, size=len(row), p=zipf(n_words, 0.9))
        picks = own[y[row], rng.integers(40, size=len(row))]
        words = np.where(rng.random(len(row)) < signal, picks, words)
        firsts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        sums = np.add.reduceat(vectors[words], firsts, axis=0)
        return (sums / lengths[:, None]).astype(np.float32), y

    return draw


def boilerplate(n_features: int, n_classes: int, spread: float, n_templates: int) -> Draw:
    """Vectors of unit length of texts, most of which are templates with a name put in.

    Texts of one template are alike to a hundredth, in all parts of a problem.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        centres = rng.standard_normal((n_classes, n_features))
        class_of = labels(rng, n_templates, n_classes, 0.4)
        templates = centres[class_of] + spread * rng.standard_normal((n_templates, n_features))
        which = rng.choice(n_templates, size=n, p=zipf(n_templates, 0.9))
        from_template = rng.random(n) < 0.7
        y = np.where(from_template, class_of[which], rng.integers(n_classes, size=n))
        free = centres[y] + spread * rng.standard_normal((n, n_features))
        X = np.where(from_template[:, None], templates[which], free)
        X += 0.01 * rng.standard_normal(X.shape)
        return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), y

    return draw
