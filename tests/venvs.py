"""Small virtual environments with made-up distributions. They see this interpreter's torch."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def make_venv(folder, *, sees_torch=False):
    """An empty virtual environment; its interpreter's path."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    if sees_torch:
        here = sysconfig.get_path("purelib")
        (folder / SITE / "torch.pth").write_text(f"{here}\n")
    return str(folder / "bin" / "python")


def files_of(name, version, code, requires=()):
    """The files of a distribution of one module, by path from site-packages."""
    info = f"{name}-{version}.dist-info"
    head = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    files = {
        f"{name}/__init__.py": code,
        f"{info}/METADATA": "\n".join(["Metadata-Version: 2.1", *head, ""]),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    return {**files, f"{info}/RECORD": record}


def install(folder, name, version, code="", requires=()):
    """Install a distribution of one module, as pip does."""
    for path, text in files_of(name, version, code, requires).items():
        place = folder / SITE / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def make_wheel(folder, name, version, code):
    """A wheel of one module, for a folder that pip uses as its index."""
    with zipfile.ZipFile(Path(folder) / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files_of(name, version, code).items():
            wheel.writestr(path, text)
