"""The cache of compiled code: whatever is wrong with it is a miss, never a failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from forms import slow
from test_compile import ONE_KERNEL, PACKAGE, run

from bigcat.compile import cache, source_hash

VALUE = pytest.approx(-0.36894641528865635)  # log Phi(0.5)


def files_in(folder):
    return cache._CacheFiles(str(folder), "kernel-1.py311", "stamp")


def empty(content):
    return b""


def cut(content):
    return content[: len(content) // 2]


def one_bit(content):
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


def of_numba(content):
    """Return a cache file without digests."""
    return content[cache._DIGEST_BYTES :]


@pytest.mark.parametrize("damage", [empty, cut, one_bit, of_numba])
@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
def test_a_damaged_file_is_a_miss_and_is_written_again(tmp_path, ending, damage):
    files_in(tmp_path).save("of a", "code a")
    files_in(tmp_path).save("of b", "code b")
    assert files_in(tmp_path).load("of a") == "code a"
    for path in tmp_path.glob(f"*{ending}"):
        path.write_bytes(damage(path.read_bytes()))
    assert files_in(tmp_path).load("of a") is None
    files_in(tmp_path).save("of a", "code a")
    assert files_in(tmp_path).load("of a") == "code a"


def test_files_that_are_gone_are_a_miss(tmp_path):
    files_in(tmp_path).save("of a", "code a")
    for path in tmp_path.glob("*.nbc"):
        path.unlink()
    assert files_in(tmp_path).load("of a") is None
    assert files_in(tmp_path / "nowhere").load("of a") is None
    (tmp_path / "kernel-1.py311.nbi").unlink()
    (tmp_path / "kernel-1.py311.nbi").mkdir()
    assert files_in(tmp_path).load("of a") is None


def test_without_a_home_no_folder_of_that_name_appears(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "~/.cache")  # what there is for a user without a home
    source = Path(cache.__file__)
    assert cache._UserWide.from_function(source_hash.__wrapped__, str(source)) is None
    assert os.listdir(tmp_path) == []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert cache._UserWide.from_function(source_hash.__wrapped__, str(source)) is not None


FULL_DISK = """
import resource, signal, warnings
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
warnings.simplefilter("error")
warnings.filterwarnings("always", "compiled code could not be kept")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_a_full_disk_is_a_warning(tmp_path):
    """The operating system refuses to write more than 100 bytes to a file."""
    folder = str(tmp_path / "cache")
    script = tmp_path / "full.py"
    script.write_text(FULL_DISK + ONE_KERNEL)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "NUMBA_CACHE_DIR": folder, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "-0.3689464152886" in done.stdout
    assert done.stderr.count("compiled code could not be kept on the disk (File too large)") == 1
    assert "make room, or name another folder in NUMBA_CACHE_DIR" in done.stderr
    assert f"{script}:" in done.stderr  # which called bigcat, numba being between
    assert [p for p in (tmp_path / "cache").rglob("*") if p.is_file()] == []


FOLDER_GONE = """
import os, shutil, sys
from bigcat.noise import Gaussian
from bigcat.noise import _base
folder = os.environ["NUMBA_CACHE_DIR"]
_base._map_verb.dispatcher
shutil.rmtree(folder)
if sys.argv[1] == "blocked":
    open(folder, "w").close()
"""


@pytest.mark.parametrize("how", [slow("gone"), "blocked"])
def test_a_folder_that_goes_away(tmp_path, how):
    folder = tmp_path / "cache"
    script = FOLDER_GONE + ONE_KERNEL
    value, misses, *_ = run(script, tmp_path, arguments=[how], NUMBA_CACHE_DIR=str(folder))
    assert (value, misses) == (VALUE, 1)
    assert folder.is_dir() == (how == "gone")
