"""Moves of chains one at a time, with what surrounds them given: when they go on, and how far."""

import copy
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bigcat.bayes import _frames, _mixing, _scale_chain
from bigcat.bayes._chains import Chains
from bigcat.bayes._mixing import Mixing
from bigcat.bayes._scale_chain import ScaleChain
from bigcat.bayes.prior_chains import PriorChain, Scalable, Scales

CENTRE, KNOWN = np.array([[1.0, -2.0, 0.5], [0.2, 0.4, -1.0]]), np.array([2.0, 0.5, 4.0])


class Gaussian:
    """The likelihood of weights that are normal around a matrix."""

    shape = CENTRE.shape
    design = SimpleNamespace(n=100)

    def values(self, stack):
        return -0.5 * (KNOWN * (stack - CENTRE) ** 2).sum(axis=(1, 2))

    def gradients(self, stack):
        return self.values(stack), -KNOWN * (stack - CENTRE)


def learnt(n_chains):
    groups = (n_chains, 1, 1)
    return PriorChain(
        np.zeros(3),
        np.ones(3),
        n_chains,
        scales=Scales.half_t(2.0, groups),
        intercepts=Scales.half_t(3.0, groups),
    )


def made(kind=Chains, n_chains=4, prior=None, seed=0) -> Any:
    frames = []

    def reframe(precision, near):
        frames.append((precision, near))
        total = KNOWN + precision
        return _frames.DiagonalFrame(KNOWN * CENTRE / total, total * np.ones((2, 1)))

    likelihood: Any = Gaussian()
    start = np.full((2, 3), 0.25)
    prior = learnt(n_chains) if prior is None else prior
    chains = kind(likelihood, prior, reframe, start, np.random.RandomState(seed))
    chains.frames = frames
    return chains


# Several chains


def test_chains_begin_at_the_mode_with_draws_of_the_frame():
    chains = made(n_chains=2_000)
    ((precision, near),) = chains.frames
    np.testing.assert_allclose(precision, np.ones((1, 3)))
    assert (near == 0.25).all()
    np.testing.assert_allclose(chains.information, np.tile(KNOWN, (2, 1)))
    np.testing.assert_allclose(chains.stack.mean(axis=0), chains.frame.mode, atol=0.1)
    np.testing.assert_allclose(chains.stack.std(axis=0), chains.frame.diagonal**-0.5, rtol=0.1)
    assert chains.angle == 0.5
    moves = [("scales", "factor"), ("intercepts", "factor"), ("scales", "mode")]
    assert chains.deviations == dict.fromkeys(moves, 0.5)


def scripted(chains, numbers, monkeypatch):
    """Chains that are where they are told to be, one iteration after the other."""
    left = list(numbers)
    moves: Any = []
    monkeypatch.setattr(chains, "_move", lambda adapt: moves.append(adapt) or 0.7)
    monkeypatch.setattr(chains, "_where_it_is", lambda: np.full((4, 1), left.pop(0)))
    return left, moves


def test_windows_until_two_agree(monkeypatch):
    chains = made()
    levels = [0.0] * 16 + [9.0] * 16 + [9.05] * 16 + [5.0] * 100
    _, moves = scripted(chains, levels, monkeypatch)
    seen: list[int] = []
    chains._arrive(lambda: seen.append(1))
    assert len(moves) == len(seen) == 48
    assert all(moves)
    assert len(chains.frames) == 1 + 3  # at the start, and after each window
    assert (chains.frames[-1][1] == chains.frame.mode).all()


def test_windows_end_in_any_case(monkeypatch):
    known = PriorChain(np.zeros(3), np.ones(3), 4)
    chains = made(prior=known)
    _, moves = scripted(chains, np.arange(1_000.0), monkeypatch)
    chains._arrive(lambda: None)
    assert len(moves) == 8 * 16
    assert len(chains.frames) == 1  # a prior that is known leaves the frame where it is


@pytest.mark.parametrize(
    ("sizes", "most_every", "expected"),
    [
        ([500.0], 8, 6),  # enough at once
        ([1.0, 500.0], 8, 6 + 6),  # half of the draws are kept, and as many more by twos
        ([1.0, 1.0, 1.0, 1.0], 4, 6 + 6 + 12),  # up to every fourth
        ([1.0, 500.0], 1, 6),
        ([2.41, 500.0], 8, 6),  # a tenth of 24 draws
        ([2.39, 500.0], 8, 12),
        ([math.nan], 8, 6),
    ],
)
def test_chains_that_mix_badly_go_on(monkeypatch, sizes, most_every, expected):
    chains = made()
    monkeypatch.setattr(chains, "_arrive", lambda on_iteration: None)
    stacks = iter(range(1_000))

    def move(adapt):
        assert not adapt
        chains.stack = np.full((4, 2, 3), float(next(stacks)))
        return 0.5

    monkeypatch.setattr(chains, "_move", move)
    left = list(sizes)
    told = []

    def of(acceptance, seen):
        told.append((acceptance, len(seen)))
        return Mixing(acceptance, 1.0, left.pop(0))

    monkeypatch.setattr(Mixing, "of", of)
    iterations: list[int] = []
    drawn = chains.run(6, 1, most_every, lambda: iterations.append(1))
    assert len(iterations) == expected
    assert told[-1] == (0.5, expected)
    assert drawn.stack.shape == (24, 2, 3)
    every = {6: 1, 12: 2, 24: 4}[expected]
    kept = np.arange(every - 1, expected, every)  # the last of each, evenly spaced
    np.testing.assert_array_equal(drawn.stack[::4, 0, 0], kept)
    assert drawn.log_scales.shape == (24, 2)
    np.testing.assert_allclose(drawn.precisions, np.ones((1, 3)))
    assert drawn.frame is chains.frame


def test_every_iteration_is_kept_unless_told_otherwise(monkeypatch):
    """However badly chains mix."""
    chains = made(prior=PriorChain(np.zeros(3), np.ones(3), 4))
    monkeypatch.setattr(chains, "_arrive", lambda on_iteration: None)
    monkeypatch.setattr(Mixing, "of", lambda acceptance, seen: Mixing(acceptance, 3.0, 0.1))
    seen: list[int] = []
    drawn = chains.run(5, on_iteration=lambda: seen.append(1))
    assert len(seen) == 5
    assert drawn.stack.shape == (20, 2, 3)
    assert drawn.frame is chains.frame


def test_steps_take_a_quarter_of_a_turn(monkeypatch):
    """With nothing but the standard normal: an exact rotation of place and velocity."""
    prior = PriorChain(np.zeros(3), np.ones(3), 4)
    chains = made(prior=prior)
    velocity = np.random.default_rng(0).normal(size=(4, 2, 3))
    for start, uniform in ((0.5, 1.1), (0.85, 1.2), (0.03, 0.8)):
        chains.angle = start
        numbers = SimpleNamespace(
            standard_normal=lambda shape: velocity,
            uniform=lambda *given, size=None, uniform=uniform: np.zeros(size) if size else uniform,
        )
        monkeypatch.setattr(chains, "rng", numbers)
        before = chains.frame.of_weights(chains.stack)
        assert chains._rotate(adapt=False) == pytest.approx(1.0)
        angle = min(start * uniform, 0.9)
        turned = round(0.5 * math.pi / angle) * angle
        expected = np.cos(turned) * before + np.sin(turned) * velocity
        np.testing.assert_allclose(chains.frame.of_weights(chains.stack), expected, atol=1e-9)
        assert chains.angle == start


def test_short_steps_keep_the_energy_where_the_frame_is_wrong():
    """Of deviations that are a third too small: an error of the order of the angle's square."""

    def twice(precision, near):
        total = 2.0 * (KNOWN + precision)
        return _frames.DiagonalFrame(KNOWN * CENTRE / total, total * np.ones((2, 1)))

    likelihood: Any = Gaussian()
    prior = PriorChain(np.full(3, 0.5), np.ones(3), 200)
    lost = []
    for angle in (0.4, 0.2, 0.1):
        chains = Chains(likelihood, prior, twice, np.zeros((2, 3)), np.random.RandomState(0))
        chains.angle = angle
        gains: list[Any] = []
        chains._accepted = lambda gain, gains=gains: (  # type: ignore
            gains.append(gain) or np.exp(np.minimum(gain, 0.0))
        )
        chains._rotate(adapt=False)
        lost.append(np.abs(gains[0]).mean())
    assert lost[2] < 0.02
    assert lost[0] > 3.0 * lost[1] > 9.0 * lost[2]


def test_angles_of_steps_differ_by_a_fifth(monkeypatch):
    """An angle of 0.4 or of 0.6 where it should be 0.5, so four steps or three."""
    chains = made()
    kept, numbers = chains._look, chains.rng
    for end, n_steps in ((0, 4), (1, 3)):
        chains.rng = SimpleNamespace(
            standard_normal=numbers.standard_normal,
            uniform=lambda *ends, size=None, end=end: np.zeros(size) if size else ends[end],
        )
        chains._here()
        looked: Any = []
        monkeypatch.setattr(
            chains, "_look", lambda stack, looked=looked: looked.append(1) or kept(stack)
        )
        chains._rotate(adapt=False)
        assert len(looked) == n_steps


@pytest.mark.parametrize("precision", [0.05, 20.0])
def test_steps_of_chains_with_another_prior_than_the_frame(precision):
    """Coordinates are stretched, and short steps lose hardly any energy."""
    chains = made(prior=PriorChain(np.zeros(3), np.ones(3), 50))
    chains.prior = PriorChain(np.zeros(3), np.full(3, precision), 50)
    stretch = chains._stretch()
    np.testing.assert_allclose(stretch, np.sqrt((KNOWN + 1.0) / (KNOWN + precision)) + 0 * stretch)
    chains.angle = 0.04
    assert chains._rotate(adapt=False) > 0.98
    u = np.random.default_rng(0).normal(size=(50, 2, 3))

    def energies_and_slopes(u):
        place = chains._look(chains.frame.to_weights(u) * stretch)
        energies, rest = chains._energies_and_rest(u, stretch, place)
        return energies, rest + u

    for k, m in ((0, 0), (1, 1), (0, 2)):
        step = np.zeros((2, 3))
        step[k, m] = 1e-4
        (low, _), (_, slopes), (high, _) = (energies_and_slopes(u + f * step) for f in (-1, 0, 1))
        np.testing.assert_allclose(slopes[:, k, m], (high - low) / 2e-4, rtol=1e-5, atol=1e-5)


def test_what_is_not_finite_is_not_taken(monkeypatch):
    chains = made(prior=PriorChain(np.zeros(3), np.ones(3), 4))
    kept = chains.stack
    given = chains._energies_and_rest
    calls = []

    def broken(*where):
        energies, rest = given(*where)
        calls.append(1)
        return (energies + (np.nan if len(calls) > 1 else 0.0)), rest

    monkeypatch.setattr(chains, "_energies_and_rest", broken)
    assert chains._rotate(adapt=True) == 0.0
    assert (chains.stack == kept).all()
    assert chains.angle == pytest.approx(0.5 * math.exp(-0.4))
    chains.angle = 0.03
    chains._rotate(adapt=True)
    assert chains.angle == 0.03


def test_deviations_of_factors_follow_how_often_they_are_taken(monkeypatch):
    """Each of three moves twice; taken where the gain is above the logarithm of a number."""
    chains = made()
    asked, factors = [], []

    def followed(kind, way, logs):
        asked.append((kind.name, way))
        factors.append(logs)
        gain = np.array([1.0, -1e9, 1.0, -1e9]) if way == "factor" else np.full(4, -1e9)
        return chains.stack + 1.0, chains.prior, gain

    before, normals = chains.stack.copy(), copy.deepcopy(chains.rng)
    monkeypatch.setattr(chains, "_followed", followed)
    monkeypatch.setattr(chains.likelihood, "values", lambda stack: np.zeros(4), raising=False)
    chains._rescale(adapt=False)
    moves = [("scales", "factor"), ("intercepts", "factor"), ("scales", "mode")]
    assert asked == moves * 2
    np.testing.assert_allclose(
        chains.stack - before, np.tile([4.0, 0.0], 2)[:, None, None] + 0 * before
    )
    assert set(chains.deviations.values()) == {0.5}
    for logs in factors:
        np.testing.assert_array_equal(logs, 0.5 * normals.standard_normal(4))
        normals.uniform(size=4)
    chains._rescale(adapt=True)
    expected = [0.5 * math.exp(0.1), 0.5 * math.exp(0.1), 0.5 * math.exp(-0.4)]
    np.testing.assert_allclose([chains.deviations[move] for move in moves], expected)


def test_a_factor_is_taken_for_what_all_gain(monkeypatch):
    """The prior and the likelihood, which is the new one from then on."""
    chains = made()
    gain, new = np.array([60.0, -60.0, -10.0, 10.0]), np.array([50.0, 100.0, -50.0, -150.0])
    values = np.array([100.0, 100.0, -100.0, -100.0])
    monkeypatch.setattr(chains, "_here", lambda: SimpleNamespace(values=values))
    monkeypatch.setattr(chains.likelihood, "values", lambda stack: new, raising=False)
    monkeypatch.setattr(chains, "_followed", lambda *_: (chains.stack + 1.0, chains.prior, gain))
    before = chains.stack
    chains.rng = np.random.RandomState(0)
    chains._rescale(adapt=False)
    # Of six moves all, none, the first that gains 40 and none that lose 10, and none.
    np.testing.assert_allclose((chains.stack - before)[:, 0, 0], [6.0, 0.0, 1.0, 0.0])


def uneven(n_chains, rng) -> PriorChain:
    """A prior whose scales differ between chains and from 1."""
    values = [rng.uniform(0.4, 2.5, (n_chains, 1, 1)) for _ in range(4)]
    scales, intercepts = Scales(values[0], values[1], 0.5), Scales(values[2], values[3], 1.5)
    units = np.array([0.5, 2.0, 3.0])
    return PriorChain(np.zeros(3), units, n_chains, scales=scales, intercepts=intercepts)


@pytest.mark.parametrize("which", [0, 1])
def test_weights_that_follow_a_factor(which):
    """Those of its own columns; scales gain what their own density does."""
    rng = np.random.default_rng(1)
    chains = made(prior=uneven(4, rng))
    logs, before = rng.normal(size=4), chains.stack.copy()
    kind = chains.prior.scalable()[which]
    stack, prior, gain = chains._followed(kind, "factor", logs)
    by = np.ones((4, 1, 3))
    by[:, :, [slice(0, 2), slice(2, 3)][which]] = np.exp(logs)[:, None, None]
    np.testing.assert_allclose(stack, before * by)
    np.testing.assert_array_equal(chains.stack, before)
    ratio = prior.precision / chains.prior.precision
    np.testing.assert_allclose(ratio, by**-2.0)
    was, is_now = (getattr(p, kind.name) for p in (chains.prior, prior))
    of_logs = [
        stats.gamma.logpdf(p.values, p.shape, scale=1.0 / p.rate) + np.log(p.values)
        for p in (was, is_now)
    ]
    np.testing.assert_allclose(gain, (of_logs[1] - of_logs[0]).ravel())


def test_weights_that_follow_the_mode():
    """As many deviations from it as before; what is gained is their density, and the volume."""
    rng = np.random.default_rng(2)
    chains = made(prior=uneven(4, rng))
    logs, before = 0.4 * rng.normal(size=4), chains.stack.copy()
    (kind, _) = chains.prior.scalable()
    stack, prior, gain = chains._followed(kind, "mode", logs)
    np.testing.assert_array_equal(stack[:, :, 2], before[:, :, 2])

    def away(weights, precision):
        total = KNOWN + precision
        return ((weights - KNOWN * CENTRE / total) * np.sqrt(total))[:, :, :2]

    precisions = [p.precision * np.ones((1, 2, 1)) for p in (chains.prior, prior)]
    np.testing.assert_allclose(away(stack, precisions[1]), away(before, precisions[0]))
    densities = [
        stats.norm.logpdf(weights, scale=precision**-0.5)[:, :, :2].sum(axis=(1, 2))
        for weights, precision in zip((before, stack), precisions)
    ]
    volume = 0.5 * np.log((KNOWN + precisions[0]) / (KNOWN + precisions[1]))[:, :, :2]
    of_scale = prior.log_density(kind) - chains.prior.log_density(kind)
    expected = of_scale + densities[1] - densities[0] + volume.sum(axis=(1, 2))
    np.testing.assert_allclose(gain, expected)


@pytest.mark.parametrize("learns", [True, False])
def test_a_move_ends_with_the_scales_that_are_learnt(monkeypatch, learns):
    prior = None if learns else PriorChain(np.zeros(3), np.ones(3), 4)
    chains = made(prior=prior)
    order: Any = []
    monkeypatch.setattr(chains, "_rotate", lambda adapt: order.append(("rotate", adapt)) or 0.6)
    monkeypatch.setattr(chains, "_rescale", lambda adapt: order.append(("rescale", adapt)))
    before = chains.prior
    assert chains._move(adapt=True) == 0.6
    assert order == [("rotate", True), ("rescale", True)][: 2 if learns else 1]
    assert (chains.prior is before) is not learns


# One chain for the scale


class Peak(ScaleChain):
    """A posterior of one factor that is a parabola, or what is added to it far from its middle."""

    def __init__(self, slope, bend, extra=0.0, normal=0.0, uniform=0.5) -> None:
        self.slope, self.bend, self.extra = slope, bend, extra
        self.rng: Any = SimpleNamespace(
            standard_normal=lambda n: np.full(n, normal), uniform=lambda: uniform
        )
        self.prior: Any = SimpleNamespace(scalable=list)
        self.stack: Any = np.zeros(1)
        self.known: Any = None

    def _here(self) -> Any:
        return self._look(np.zeros(1))

    def _look(self, stack) -> Any:
        (log,) = stack
        at = 5.0 + self.slope * log - 0.5 * self.bend * log**2
        at += self.extra if abs(log) > 2.0 * _scale_chain.HALF_WIDTH else 0.0
        return SimpleNamespace(values=np.array([at]))

    def _parabolas(self, here) -> Any:
        return np.array([self.slope]), np.array([self.bend])

    def _multiplied(self, logs, only=None) -> Any:
        return np.array(logs), self.prior


WEIGHTS = Scalable("scales", slice(0, 2))


@pytest.mark.parametrize("normal", [0.0, 1.5, -1.5])
def test_a_factor_is_drawn_from_its_parabola(normal):
    chain = Peak(3.0, 40.0, normal=normal)
    chain._rescale_by_peak(arrived=True)
    drawn = 3.0 / 40.0 + normal / math.sqrt(40.0)
    assert chain.stack == pytest.approx([drawn])
    assert chain.known.values == pytest.approx([5.0 + 3.0 * drawn - 20.0 * drawn**2])


@pytest.mark.parametrize(
    ("slope", "bend", "normal", "expected"),
    [(30.0, 4.0, 0.0, 0.5), (0.0, 0.1, 1.0, 0.5), (-30.0, -5.0, 0.0, -0.5)],
    ids=["a peak at 7.5", "hardly a peak", "none"],
)
def test_a_factor_goes_no_further_than_a_parabola_is_known(slope, bend, normal, expected):
    chain = Peak(slope, bend, normal=normal)
    chain._rescale_by_peak(arrived=False)
    assert chain.stack == pytest.approx([expected])


@pytest.mark.parametrize(("extra", "taken"), [(-0.6, True), (-0.8, False), (0.5, True)])
def test_what_a_parabola_does_not_tell_is_decided_by_chance(extra, taken):
    """exp(-0.6) is above the number 1/2, and exp(-0.8) below it."""
    chain = Peak(3.0, 10.0, extra=extra, normal=1.0)
    chain._rescale_by_peak(arrived=True)
    assert (chain.known is not None) is taken
    assert bool(chain.stack.any()) is taken
    on_the_way = Peak(3.0, 10.0, extra=extra, normal=1.0)
    on_the_way._rescale_by_peak(arrived=False)
    assert on_the_way.stack == pytest.approx([0.3 + 10.0**-0.5])


class WithPrior(Peak):
    """The same posterior, of which the prior is a part: its slope is 4."""

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.prior = self._at(0.0)

    def _at(self, log) -> Any:
        return SimpleNamespace(scalable=lambda: [WEIGHTS], log_density=lambda kind: [7 + 4 * log])

    def _look(self, stack) -> Any:
        return SimpleNamespace(values=super()._look(stack).values - 4.0 * stack)

    def _multiplied(self, logs, only=None) -> Any:
        return np.array(logs), self._at(logs[0])


@pytest.mark.parametrize("normal", [1.0, -2.0])
@pytest.mark.parametrize(("extra", "taken"), [(0.0, True), (-0.6, True), (-0.8, False)])
def test_what_the_prior_gains_counts(normal, extra, taken):
    chain = WithPrior(3.0, 10.0, extra=extra, normal=normal)
    chain._rescale_by_peak(arrived=True)
    assert (chain.known is not None) is taken


def test_parabolas_are_those_of_the_posterior():
    """Slopes and bends in the logarithms of factors; a third of the rows stands for all."""
    chain = made(ScaleChain, 1)
    chain.prior = PriorChain(
        np.zeros(3),
        np.ones(3),
        1,
        scales=Scales(np.full((1, 1, 1), 0.7), np.full((1, 1, 1), 1.3), 0.5),
        intercepts=Scales(np.full((1, 1, 1), 1.6), np.full((1, 1, 1), 0.4), 1.5),
    )
    chain.likelihood.design = SimpleNamespace(n=100, total_weight=150.0)
    chain.some = SimpleNamespace(
        design=SimpleNamespace(total_weight=50.0),
        values=lambda stack: chain.likelihood.values(stack) / 3.0,
    )
    slopes, bends = chain._parabolas(chain._here())
    # Of -known (w e^x - centre)^2 / 2 and shape log(v e^-2x) - rate v e^-2x, at x = 0.
    w = chain.stack[0]
    slope = (KNOWN * w * (CENTRE - w)).sum(axis=0)
    bend = (KNOWN * w * (2.0 * w - CENTRE)).sum(axis=0)
    shapes, rates = np.array([0.5, 1.5]), np.array([1.3 * 0.7, 0.4 * 1.6])
    of_kinds = [np.array([v[:2].sum(), v[2]]) for v in (slope, bend)]
    np.testing.assert_allclose(slopes, of_kinds[0] - 2.0 * shapes + 2.0 * rates, rtol=3e-3)
    np.testing.assert_allclose(bends, of_kinds[1] + 4.0 * rates, rtol=1e-2)


class Counted:
    """A likelihood that only tells which of its rows are taken."""

    def __init__(self, n) -> None:
        self.design = SimpleNamespace(n=n)

    def of_rows(self, rows, n):
        assert n == self.design.n
        assert (np.diff(rows) > 0).all()  # in their order, and each at most once
        assert 0 <= rows[0] <= rows[-1] < n
        return len(rows)


@pytest.mark.parametrize(("n", "expected"), [(80, 80), (500, 500), (900, 500), (16_000, 1_000)])
def test_a_part_of_the_rows_tells_the_bend(n, expected):
    chain = Peak(1.0, 1.0)
    likelihood: Any = Counted(n)
    chain.likelihood, chain.rng = likelihood, np.random.RandomState(0)
    taken: Any = chain.some
    assert taken == expected


@pytest.mark.parametrize(("n", "expected"), [(3_990, None), (4_000, 500), (8_000, 1_000)])
def test_a_chain_begins_with_an_eighth_of_many_rows(n, expected):
    likelihood: Any = Counted(n)
    assert _scale_chain.first_rows(likelihood, np.random.RandomState(0)) == expected


def test_weights_and_scales_are_multiplied_together():
    chain = made(ScaleChain, 1)
    stack = chain.stack.copy()
    found, prior = chain._multiplied(0.3, WEIGHTS)
    np.testing.assert_allclose(found, stack * np.array([math.exp(0.3), math.exp(0.3), 1.0]))
    assert prior.scales.values[0, 0, 0] == pytest.approx(math.exp(-0.6))
    assert (chain.stack == stack).all()
    chain.stack, chain.prior = chain._multiplied(np.array([0.3, -0.2]))
    np.testing.assert_allclose(chain.stack, stack * np.exp([0.3, 0.3, -0.2]))
    np.testing.assert_allclose(chain._log_scales(), [0.3, -0.2])


class Scripted(ScaleChain):
    """Moves by given steps of the logarithm of two scales."""

    def __init__(self, moves) -> None:
        self.moves, self.at = iter(moves), np.zeros(2)
        self.asked: list[bool] = []
        self.multiplied: list[list[float]] = []
        self.stack: Any = np.zeros(3)
        self.reframed: list[float] = []
        self.frame: Any = SimpleNamespace(mode=np.zeros(3))
        kinds = [Scalable("scales", slice(0, 2)), Scalable("intercepts", slice(2, 3))]
        self.prior: Any = SimpleNamespace(
            scalable=lambda: kinds,
            precision=np.full((1, 1, 3), 4.0),
            summary=lambda: -2.0 * self.at[None],
        )

    def _iterate(self, on_iteration, arrived):
        self.asked.append(arrived)
        moved = np.array(next(self.moves, (0.0, 0.0)))
        self.at = self.at + moved
        on_iteration()
        return moved

    def _multiplied(self, logs, only=None) -> Any:
        self.multiplied.append(list(logs))
        self.at = self.at + logs
        return self.stack, self.prior

    def _set_frame(self, near):
        self.reframed.append(float(self.at[0]))


def test_a_chain_that_has_arrived_learns_at_once():
    chain = Scripted([])
    seen: list[int] = []
    precisions, mixing = chain.learn(7, lambda: seen.append(1))
    assert chain.asked == [False] * 4 + [True] * 7
    assert len(seen) == 11
    np.testing.assert_allclose(precisions, np.full((1, 3), 4.0))
    assert math.isnan(mixing.acceptance)
    assert chain.multiplied == chain.reframed == []


def test_a_chain_on_its_way_is_moved_ahead():
    """Moves of 0.4, then 0.2, will add 0.2; the frame follows once it is half a unit off."""
    chain = Scripted([(0.2, 0.0), (0.2, 0.0), (0.1, 0.0), (0.1, 0.0)])
    chain.learn(3)
    assert chain.multiplied == [pytest.approx([0.2, 0.0])]
    assert chain.asked == [False] * 8 + [True] * 3
    assert chain.reframed == pytest.approx([0.8])


def test_a_frame_that_is_near_stays():
    chain = Scripted([(0.1, 0.0), (0.1, 0.0), (0.05, 0.0), (0.05, 0.0)])
    chain.learn(2)
    assert chain.multiplied == [pytest.approx([0.1, 0.0])]
    assert chain.reframed == []


def test_frames_are_for_the_weights_wherever_these_begin():
    """Intercepts may move as far as they like."""
    chain = Scripted([(0.1, 0.9), (0.1, 0.9), (0.05, 0.9), (0.05, 0.9)])
    chain.at = np.array([2.0, -3.0])
    chain.learn(2)
    assert len(chain.multiplied) == 1
    assert chain.reframed == []


def test_iterations_that_are_kept_tell_how_the_chain_has_mixed():
    moves = np.random.default_rng(4).normal(size=(12, 2))
    chain = Scripted([(0.0, 0.0)] * 4 + moves.tolist())
    _, mixing = chain.learn(12)
    seen = -2.0 * moves.cumsum(axis=0)[:, None]
    expected = Mixing.of(math.nan, seen)
    assert (mixing.r_hat, mixing.ess_bulk) == pytest.approx((expected.r_hat, expected.ess_bulk))


def test_windows_of_a_chain_that_never_arrives():
    chain = Scripted([(0.1, 0.0)] * 200)
    chain.learn(2)
    assert chain.asked == [False] * sum(_scale_chain.WINDOWS) + [True] * 2
    assert len(chain.multiplied) == len(_scale_chain.WINDOWS)


def test_moves_that_scatter_have_arrived():
    """Within twice their deviation, or 0.03."""
    scattered = Scripted([(0.0, 0.0), (0.0, 0.0), (0.2, 0.0), (-0.1, 0.0)])
    scattered.learn(2)
    assert scattered.asked.count(False) == 4  # 0.1 is less than twice 0.15
    farther = Scripted([(0.0, 0.0), (0.0, 0.0), (0.2, 0.0), (0.02, 0.0)])
    farther.learn(2)
    assert farther.asked.count(False) == 8  # 0.22 is more than twice 0.09
    straight = Scripted([(0.0, 0.0), (0.0, 0.0), (0.05, 0.0), (0.05, 0.0)])
    straight.learn(2)
    assert straight.asked.count(False) == 8
    small = Scripted([(0.5, 0.0), (0.0, 0.0), (0.0149, 0.0), (0.0149, 0.0)])
    small.learn(2)
    assert small.asked.count(False) == 4


def test_an_iteration_of_the_scale_chain(monkeypatch):
    chain = made(ScaleChain, 1)
    order: list[Any] = []
    monkeypatch.setattr(chain, "_rotate", lambda adapt: order.append(("rotate", adapt)))
    monkeypatch.setattr(
        chain,
        "_rescale_by_peak",
        lambda arrived: order.append(("factors", arrived)),
    )
    chain.stack, chain.prior = chain._multiplied(np.array([0.3, -0.2]))
    before = chain._log_scales()
    moved = chain._iterate(lambda: order.append("told"), True)
    assert order == [("rotate", True), ("factors", True), "told"]
    np.testing.assert_allclose(moved, chain._log_scales() - before)
    assert (moved != 0.0).all()


# How chains have mixed


def test_effective_draws_by_hand():
    """Of one chain of six numbers: autocovariances as they are defined."""
    values = np.array([0.3, 1.0, 0.8, -0.2, -1.1, -0.4])[:, None]
    away = values[:, 0] - values.mean()
    gamma = np.array([away[: 6 - t] @ away[t:] for t in range(6)]) / 6
    rho = 1.0 - (gamma[0] * 6 / 5 - gamma) / gamma[0]
    rho[0] = 1.0
    sums = [rho[0] + rho[1], rho[2] + rho[3]]  # of two pairs at the most
    assert sums[0] > 0.0 > sums[1]
    time = 2.0 * sums[0] - 1.0 + max(rho[2], 0.0)
    expected = 6 / max(time, 1.0 / math.log10(6))
    assert _mixing._effective_size(values) == pytest.approx(expected)


def test_effective_draws_of_chains_that_differ():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(50, 3)) + np.array([0.0, 0.1, -0.1])
    n = 50
    gamma = np.zeros(n)
    for c in range(3):
        away = values[:, c] - values[:, c].mean()
        gamma += np.array([away[: n - t] @ away[t:] for t in range(n)]) / n / 3
    total = gamma[0] + values.mean(axis=0).var(ddof=1)
    rho = 1.0 - (gamma[0] * n / (n - 1) - gamma) / total
    rho[0] = 1.0
    sums: list[float] = []
    t = 0
    while t + 1 < n - 1 and rho[t] + rho[t + 1] > 0.0:
        sums.append(min(rho[t] + rho[t + 1], *sums[-1:], np.inf))
        t += 2
    assert len(sums) > 1
    assert t < 48
    time = 2.0 * sum(sums) - 1.0 + max(rho[t], 0.0)
    assert _mixing._effective_size(values) == pytest.approx(150 / time)


def autocorrelations(values):
    """Of chains (n, C), relative to the variance of all of them together."""
    n, n_chains = values.shape
    away = values - values.mean(axis=0)
    gamma = np.array([np.sum(away[: n - t] * away[t:]) for t in range(n)]) / (n * n_chains)
    total = gamma[0] + (values.mean(axis=0).var(ddof=1) if n_chains > 1 else 0.0)
    rho = 1.0 - (gamma[0] * n / (n - 1) - gamma) / total
    rho[0] = 1.0
    return rho


@pytest.mark.parametrize(("n", "n_pairs"), [(2, 1), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3)])
def test_short_chains_have_few_pairs_of_autocorrelations(n, n_pairs):
    """The last autocorrelation does not count, unless there is no other pair."""
    values = np.random.default_rng(0).normal(size=(n, 2)).cumsum(axis=0)
    values[:, 1] += 40.0
    sums = autocorrelations(values)[: 2 * n_pairs].reshape(-1, 2).sum(axis=1)
    assert (sums > 0.0).all()
    time = 2.0 * np.minimum.accumulate(sums).sum() - 1.0
    assert _mixing._effective_size(values) == pytest.approx(2 * n / time)


def test_half_a_pair_of_autocorrelations_counts_once():
    """The first of the pair that ends the sequence, where it is above 0."""
    values = np.random.default_rng(13).normal(size=(9, 1)).cumsum(axis=0)
    rho = autocorrelations(values)
    assert 0.0 < rho[2] < -rho[3]
    time = 2.0 * (rho[0] + rho[1]) - 1.0 + rho[2]
    assert _mixing._effective_size(values) == pytest.approx(9 / time)


def test_halves_of_chains():
    values = np.arange(14.0).reshape(7, 2)
    halves = _mixing._split(values)  # the middle of an odd number is left out
    np.testing.assert_array_equal(halves, np.column_stack([values[:3], values[-3:]]))
    scores = _mixing._normalised(np.array([[3.0, 1.0], [2.0, 9.0]]))
    np.testing.assert_allclose(stats.norm.cdf(scores), (np.array([[3, 1], [2, 4]]) - 0.375) / 4.25)


def test_deviations_of_all_chains_relative_to_those_within():
    values = np.array([[0.0, 1.0, 5.0], [2.0, 1.5, 3.0], [1.0, 4.0, 2.5], [3.0, 0.5, 4.0]])
    within = np.mean([np.var(chain, ddof=1) for chain in values.T])
    between = np.var([np.mean(chain) for chain in values.T], ddof=1)
    assert _mixing._r_hat(values) == pytest.approx(math.sqrt(3 / 4 + between / within))
    assert _mixing._r_hat(np.full((4, 3), 0.3)) == 1.0
    assert _mixing._r_hat(np.tile([0.1, 0.2, 0.4], (4, 1))) == math.inf
    # Chains around one middle of which some go out farther.
    far = np.array([-9.0, 8.0, -7.0, 9.0, 7.0, -8.0])
    spread = 20.0 + np.column_stack([0.1 * far, far])
    out = _mixing._normalised(np.abs(_mixing._split(spread) - np.median(spread)))
    assert _mixing.r_hat(spread) == pytest.approx(_mixing._r_hat(out))
    assert _mixing.r_hat(spread) > 1.5


def test_four_iterations_tell_something():
    seen = np.random.default_rng(0).normal(size=(4, 3, 2))
    found = Mixing.of(0.25, seen)
    assert found.acceptance == 0.25
    assert found.r_hat == max(_mixing.r_hat(seen[:, :, i]) for i in (0, 1))
    assert found.ess_bulk == min(_mixing.ess_bulk(seen[:, :, i]) for i in (0, 1))
    assert set(Mixing.of(0.25, seen[:3]).told()) == {"acceptance"}
    assert Mixing(0.5, 1.0, 10.0).warning() is None
    assert Mixing(0.5, 1.5, 9.9).warning() is not None
    assert Mixing(0.5, 1.0, math.nan).warning() is None


def test_the_deviation_of_a_mean():
    draws = np.random.default_rng(2).normal(size=26)
    values = draws[:24].reshape(6, 4)  # what is left over of an iteration does not count
    size = _mixing._effective_size(_mixing._split(values))
    expected = values.std(ddof=1) / math.sqrt(size)
    assert _mixing.mean_error(draws, 4) == pytest.approx(expected)
    assert np.isnan(_mixing.mean_error(draws[:15], 4))
    assert np.isfinite(_mixing.mean_error(draws[:16], 4))


# Precisions of the prior


def test_scales_of_a_half_t_begin_where_they_are_told():
    """And with the rate with which that is their mean."""
    found = Scales.half_t(2.5, (3, 1, 1), freedom=4.0, start=0.2)
    np.testing.assert_array_equal(found.values, np.full((3, 1, 1), 0.2))
    np.testing.assert_allclose(found.rate, np.full((3, 1, 1), 10.0))
    assert (found.shape, found.width) == (2.0, 2.5)
    np.testing.assert_allclose(found.rate * found.values, found.shape)


@pytest.mark.parametrize("freedom", [1.0, 4.0])
def test_rates_of_a_half_t_are_drawn_given_the_scales(freedom):
    """a given a precision t is Gamma((v + 1) / 2, 1 / A^2 + v t), and v a the rate of t."""
    before = Scales.half_t(2.5, (2, 1, 1), freedom)
    numbers: Any = Means()
    found = before.drawn(6.0, np.array([3.0, 8.0]).reshape(2, 1, 1), numbers)
    t = (0.5 * freedom + 3.0) / (0.5 * freedom + np.array([1.5, 4.0]))
    np.testing.assert_allclose(found.values.ravel(), t)
    mean = 0.5 * (freedom + 1.0) / (1.0 / 2.5**2 + freedom * t)
    np.testing.assert_allclose(found.rate.ravel(), freedom * mean)


def test_parts_of_a_prior_are_those_of_the_chains_that_move():
    rng = np.random.default_rng(6)
    groups = {"scales": (4, 1, 1), "features": (4, 1, 2), "locals_": (4, 3, 2)}
    groups["intercepts"] = (4, 1, 1)

    def anywhere() -> Any:
        parts: Any = {
            name: Scales(rng.uniform(size=shape), rng.uniform(size=shape))
            for name, shape in groups.items()
        }
        return PriorChain(np.zeros(3), np.array([0.5, 2.0, 3.0]), 4, **parts)

    one, two = anywhere(), anywhere()
    chosen = np.array([True, False, False, True])
    found = one.where(chosen, two)
    for name in groups:
        for what in ("values", "rate"):
            mine, theirs, both = (getattr(getattr(p, name), what) for p in (one, two, found))
            np.testing.assert_array_equal(both[chosen], theirs[chosen])
            np.testing.assert_array_equal(both[~chosen], mine[~chosen])
    product = one.scales.values * one.features.values * one.locals_.values
    np.testing.assert_allclose(one.precision[:, :, :2], product * [0.5, 2.0])
    last = 3.0 * one.intercepts.values * np.ones((1, 3, 1))
    np.testing.assert_allclose(one.precision[:, :, 2:], last)
    np.testing.assert_allclose(one.typical(), np.prod(one.precision, axis=0) ** 0.25)


class Means:
    """Gamma draws that are their means."""

    def gamma(self, shape, size):
        return np.full(size, shape)


@pytest.mark.parametrize("names", [("features",), ("scales", "features"), ("scales", "locals_")])
@pytest.mark.parametrize("per_class", [False, True])
def test_precisions_are_drawn_given_all_others(names, per_class):
    """Gamma(shape + n / 2, rate + sum of squares / 2) in units of the other precisions."""
    rng = np.random.default_rng(5)
    groups = {"scales": (2, 3 if per_class else 1, 1), "features": (2, 1, 4), "locals_": (2, 3, 4)}
    parts: Any = {
        name: Scales(rng.uniform(0.5, 2.0, groups[name]), rng.uniform(0.5, 2.0, groups[name]), 0.7)
        for name in names
    }
    units, mean = rng.uniform(0.5, 2.0, 5), rng.normal(size=5)
    prior = PriorChain(mean, units, 2, **parts)
    stack = rng.normal(size=(2, 3, 5))
    numbers: Any = Means()
    drawn = prior.drawn(stack, numbers)
    squares = ((stack - mean) ** 2 * units)[:, :, :4]
    now = {name: part.values for name, part in parts.items()}
    for name in sorted(names):  # the scale of all is the last
        others = squares * np.ones((2, 3, 4))
        for other in set(names) - {name}:
            others = others * now[other]
        axes = tuple(axis for axis in (1, 2) if groups[name][axis] == 1)
        count = math.prod(others.shape[axis] for axis in axes)
        total = others.sum(axis=axes, keepdims=True)
        now[name] = (0.7 + 0.5 * count) / (parts[name].rate + 0.5 * total)
        np.testing.assert_allclose(getattr(drawn, name).values, now[name])
