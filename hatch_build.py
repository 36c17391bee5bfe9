"""Put machine code of the common kernels into wheels that are built with BIGCAT_KERNELS=1.

It is for any x86-64 processor with AVX2, or for any arm64; the package checks which one it runs on.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

X86_64 = {
    "NUMBA_CPU_NAME": "x86-64-v3",
    "NUMBA_CPU_FEATURES": "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse4.2",
}
ARM64 = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+neon"}
TARGETS = {"x86_64": X86_64, "AMD64": X86_64, "aarch64": ARM64, "arm64": ARM64}


class KernelHook(BuildHookInterface):
    """Compile in a process of its own, and add what it has kept on the disk."""

    PLUGIN_NAME = "custom"

    @property
    def wanted(self) -> bool:
        return self.target_name == "wheel" and os.environ.get("BIGCAT_KERNELS") == "1"

    def dependencies(self) -> list[str]:
        return self.metadata.core.dependencies if self.wanted else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not self.wanted or version != "standard":
            return
        self.folder = Path(tempfile.mkdtemp())
        environment = {
            **os.environ,
            **TARGETS[platform.machine()],
            "NUMBA_CACHE_DIR": str(self.folder / "cache"),
            "PYTHONPATH": str(Path(self.root) / "src"),
        }
        kept = self.folder / "kernels"
        subprocess.run([sys.executable, __file__, str(kept)], env=environment, check=True)
        build_data["force_include"][str(kept)] = "bigcat/_kernels"
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


def compile_into(folder: Path) -> None:
    """Precompile, and copy the files of each kernel to a folder of its module's name."""
    from bigcat.compile import Kernel
    from bigcat.precompile import precompile

    precompile(dtypes=("float32", "float64"), on_case=print)
    modules = [module for name, module in sys.modules.items() if name.startswith("bigcat.")]
    found = {k for m in modules for k in vars(m).values() if isinstance(k, Kernel)}
    for kernel in found:
        cache = kernel.dispatcher._cache
        for file in Path(cache.cache_path).glob(f"{cache._impl.filename_base}*.nb?"):
            place = folder / kernel.py_func.__module__
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
    target = next(iter(found)).dispatcher.targetctx.codegen().magic_tuple()
    (folder / "target.json").write_text(json.dumps(target))


if __name__ == "__main__":
    compile_into(Path(sys.argv[1]))
