"""How an earlier PyTorch is made to probe for vector instructions without importing torch."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._inductor import cpu_vec_isa

from compilegate.observe import vector_instructions

LIBRARY = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
WHETHER_TORCH = "\nimport sys\nprint('torch' in sys.modules)"


class Earlier:
    """``VecISA`` as it probes in 2.11."""

    _avx_py_load = 'import torch\nfrom ctypes import cdll\ncdll.LoadLibrary("__lib_path__")\n'


class Later(Earlier):
    """``VecISA`` as in 2.14, which loads without torch, and notes what it has found."""

    def _probe_load(self, output_path):
        raise NotImplementedError


@pytest.fixture
def probe(monkeypatch):
    """Probe for a library with the given class; return how the process ended and what it wrote."""

    def run(isa, library):
        monkeypatch.setattr(cpu_vec_isa, "VecISA", isa)
        monkeypatch.setattr(isa, "_avx_py_load", isa._avx_py_load)
        vector_instructions.probe_without_torch()
        code = isa._avx_py_load.replace("__lib_path__", str(library)) + WHETHER_TORCH
        command = [sys.executable, "-P", "-c", code]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout.strip()

    return run


def test_a_library_that_loads_is_found_without_importing_torch(probe):
    assert probe(Earlier, LIBRARY) == (0, "False")


def test_a_library_that_does_not_load_is_not_found(probe, tmp_path):
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    returncode, written = probe(Earlier, broken)
    assert returncode != 0
    assert not written


@pytest.fixture
def lacking(tmp_path):
    """Return a library that needs another one, which is where the loader does not look."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    other, library = folder / f"lib{tmp_path.name}.so", tmp_path / "lacking.so"
    for name, code in (("other", "int other() { return 1; }"), ("lacking", "int other();")):
        (tmp_path / f"{name}.c").write_text(f"{code} int {name}_too() {{ return other(); }}")
    build = ["gcc", "-shared", "-fPIC", "-o"]
    subprocess.run([*build, other, tmp_path / "other.c", f"-Wl,-soname,{other.name}"], check=True)
    subprocess.run([*build, library, tmp_path / "lacking.c", other], check=True)
    return library, other


def test_what_a_library_lacks_is_loaded_from_where_this_process_has_it(probe, lacking):
    library, other = lacking
    ctypes.CDLL(str(other))
    assert probe(Earlier, library) == (0, "False")


def test_a_library_that_lacks_what_this_process_has_not_either_is_not_found(probe, lacking):
    library, _ = lacking
    returncode, written = probe(Earlier, library)
    assert returncode != 0
    assert not written


def test_torch_that_probes_without_torch_is_left_alone(probe):
    assert probe(Later, LIBRARY) == (0, "True")
