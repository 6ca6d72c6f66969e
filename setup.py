"""What of Penstock is compiled when it is installed; pyproject.toml has the rest of the build.

The record kernel is Cython. The hot modules, those that a request passes through, are plain typed
Python that mypyc compiles as it is: `hot-modules.txt` lists them. Both are optional: without a
compiler, without mypyc, or with PENSTOCK_COMPILE=no, everything runs in Python and answers alike.

`penstock/compiled.txt`, written last, holds the checksum of each source that was compiled, so that
a binary is never taken for that of a source which has changed since (`penstock/cli/compiled.py`).
"""

import os
import sys
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

try:
    from mypyc.build import mypycify
except ImportError:  # installed without build isolation, where there is no mypy
    mypycify = None

SOURCE = Path("src")
COMPILED_LIST = Path("penstock", "compiled.txt")
LIBRARY = "penstock"  # its file is penstock__mypyc
BINARIES = {".so", ".pyd"}
KERNEL = ("walk", "columns", "write", "keys", "xxhash")


class BuildExtensions(build_ext):
    """The record kernel, then the hot modules: all of these, or none."""

    def run(self) -> None:
        super().run()
        places = {Path(self.build_lib)} | ({SOURCE} if self.inplace else set())
        for place in places:
            remove_products(place)
        sources = hot_sources()
        reason = self._compile(sources)
        if reason is None:
            listed = "".join(f"{checksum(source)} {name_of(source)}\n" for source in sources)
            for place in places:
                (place / COMPILED_LIST).write_text(listed, encoding="utf-8")
        else:
            for place in places:
                remove_products(place)
            print(f"penstock: the hot modules will run in Python: {reason}", file=sys.stderr)

    def _compile(self, sources: Sequence[Path]) -> str | None:
        """Why they are not compiled; None when they are."""
        if os.environ.get("PENSTOCK_COMPILE") == "no":
            return "PENSTOCK_COMPILE=no"
        if mypycify is None:
            return "mypyc is not installed"
        # Apart from the cache of the type checks, which has other options.
        os.environ["MYPY_CACHE_DIR"] = str(Path("build", "mypy-cache"))
        try:
            extensions = mypycify(
                [str(source) for source in sources],
                group_name=LIBRARY,
                opt_level="3",
                debug_level="0",
                multi_file=True,
            )
            command = BuildHotModules(
                Distribution({"ext_modules": extensions, "package_dir": {"": str(SOURCE)}})
            )
            command.inplace = self.inplace
            command.build_lib = self.build_lib
            command.build_temp = str(Path(self.build_temp, "hot-modules"))
            command.ensure_finalized()
            command.run()
        except SystemExit:
            return "mypyc does not take them"
        except (BaseError, CCompilerError) as error:
            return f"they cannot be compiled: {error}"
        return None


class BuildHotModules(build_ext):
    """One library made of many files, several of which are compiled at once."""

    def build_extensions(self) -> None:
        self.compiler.compile = self._compile_side_by_side
        super().build_extensions()

    def _compile_side_by_side(
        self, sources: list[str], output_dir: str | None = None, **options: Any
    ) -> list[str]:
        compile_in_turn = type(self.compiler).compile
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(
                lambda source: compile_in_turn(self.compiler, [source], output_dir, **options),
                sources,
            )
            return [name for names in found for name in names]


def hot_sources() -> list[Path]:
    return [Path(line) for line in Path("hot-modules.txt").read_text("utf-8").splitlines()]


def name_of(source: Path) -> str:
    """The path of a module from the package on."""
    return source.relative_to(SOURCE).as_posix()


def checksum(source: Path) -> str:
    return f"{zlib.crc32(source.read_bytes()):08x}"


def remove_products(place: Path) -> None:
    """What an earlier build left, of whatever modules: half of a build must never be met."""
    found = (place / "penstock").rglob("*")
    hot = [path for path in found if path.suffix in BINARIES and path.parent.name != "kernel"]
    for path in (*hot, *place.glob(f"{LIBRARY}__mypyc.*"), place / COMPILED_LIST):
        path.unlink(missing_ok=True)


def kernel_extension(name: str) -> Extension:
    folder = "src/penstock/records/kernel"
    return Extension(
        f"penstock.records.kernel.{name}",
        sources=[f"{folder}/{name}.pyx"],
        depends=[f"{folder}/varint.pxd", f"{folder}/fields.pxd"],
        optional=True,
    )


setup(
    ext_modules=[kernel_extension(name) for name in KERNEL],
    cmdclass={"build_ext": BuildExtensions},
)
