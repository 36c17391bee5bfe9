"""A sample of the kills of `make torture`."""

import os

import pytest

from tests.torture.killed_conversions import kill_conversions
from tests.torture.killed_fits import kill_fits
from tests.torture.kills import kill_saves


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_killed_saves(tmp_path):
    found = kill_saves(8, tmp_path)
    assert found.kills == 8
    assert found.left_behind == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_killed_fits(tmp_path):
    found = kill_fits(4, tmp_path, names=["augment-reduce", "streams"])
    assert found.kills >= 4
    assert found.same_bits == found.fits


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_killed_conversions(tmp_path):
    found = kill_conversions(5, tmp_path)
    assert found.kills == 5
    assert found.left_behind == 0
