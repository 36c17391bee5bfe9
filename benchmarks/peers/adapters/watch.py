"""The clock of a fit, its learning curve, and when to stop it. NumPy and SciPy only."""

import json
import resource
import time
from contextlib import contextmanager

import numpy as np

PATIENCE = 2  # epochs without a gain on the validation rows, 1 where an epoch is slow
SLOW_EPOCH = 8.0  # seconds
CURVE_CHUNK = 1 << 21  # scores at a time, so that looking does not add to the memory of the fit


def cpu_seconds():
    """Return the CPU seconds of this process and of its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def peak_megabytes():
    """Return the peak memory of this process, or of its children if that is more."""
    try:
        with open("/proc/self/status") as status:
            own = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024


def mean_log_likelihood(log_proba, X, y, n_classes, floor=0.0):
    """Return the mean log-likelihood by renormalised probabilities, optionally with a floor."""
    lowest = np.log(floor) if floor else -np.inf
    total, step = 0.0, max(1, CURVE_CHUNK // n_classes)
    for first in range(0, len(y), step):
        rows = slice(first, first + step)
        log_p = np.asarray(log_proba(X[rows]), dtype=np.float64)
        top = log_p.max(axis=1)
        log_sums = top + np.log(np.exp(log_p - top[:, None]).sum(axis=1))
        own = log_p[np.arange(len(log_p)), y[rows]] - log_sums
        total += np.maximum(own, lowest).sum()
    return total / len(y)


class Watch:
    """Times a fit, without what is done in `pause`, and follows it epoch by epoch.

    Parameters
    ----------
    X, y : held-out rows behind the points of the curve
    n_classes : int
    limit : float
        Seconds for the fit. An epoch that would end later is not begun.
    patient : bool
        Whether to stop when the held-out log-likelihood has not grown for `PATIENCE` epochs.
    folder : Path
        Gets ``deadline``, after which the fit may be killed (absent while no fit runs, of no effect
        during a pause), and ``curve.json``, so that a fit that is killed leaves its curve behind.
    """

    def __init__(self, X, y, n_classes, limit, patient, folder):
        self.X, self.y, self.n_classes = X, y, n_classes
        self.limit, self.patient, self.folder = limit, patient, folder
        self.curve = []
        self.stopped_by_limit = False
        self._paused = [0.0, 0.0]

    def start(self):
        self._started = [time.perf_counter(), cpu_seconds()]
        self._set_deadline(time.monotonic() + self.limit)

    def stop(self):
        """Wall and CPU seconds of the fit."""
        seconds = self.seconds(), self.cpu_seconds()
        (self.folder / "deadline").unlink()
        return seconds

    def seconds(self):
        return time.perf_counter() - self._started[0] - self._paused[0]

    def cpu_seconds(self):
        return cpu_seconds() - self._started[1] - self._paused[1]

    @contextmanager
    def pause(self):
        wall, cpu, left = time.perf_counter(), cpu_seconds(), self.limit - self.seconds()
        self._set_deadline(time.monotonic() + 3600)
        yield
        self._paused[0] += time.perf_counter() - wall
        self._paused[1] += cpu_seconds() - cpu
        self._set_deadline(time.monotonic() + left)

    def after_epoch(self, epoch, log_proba):
        """Record a point of the curve; return True if the fit should stop."""
        seconds = self.seconds()
        with self.pause():
            value = mean_log_likelihood(log_proba, self.X, self.y, self.n_classes)
            return self.record(epoch, seconds, value)

    def record(self, epoch, seconds, value):
        """Add a point that was measured elsewhere; return True if the fit should stop."""
        self.curve.append([int(epoch), float(seconds), float(value)])
        (self.folder / "curve.json").write_text(json.dumps(self.curve))
        a_while = seconds / epoch
        patience = PATIENCE if a_while < SLOW_EPOCH else 1
        if seconds + a_while > self.limit:
            self.stopped_by_limit = True
            return True
        stale = self.patient and epoch - self.best_epoch() >= patience
        return stale or not np.isfinite(value)

    def values(self):
        """Epochs and their held-out log-likelihoods, the worst possible for NaN."""
        return [(epoch, -np.inf if np.isnan(v) else v) for epoch, _, v in self.curve]

    def best_epoch(self):
        """The first epoch with the highest point of the curve."""
        return max(self.values(), key=lambda point: point[1])[0]

    def _set_deadline(self, moment):
        part = self.folder / "deadline.part"
        part.write_text(repr(moment))
        part.replace(self.folder / "deadline")
