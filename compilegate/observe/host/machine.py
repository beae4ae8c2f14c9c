"""What machines of one kind may differ in: clocks, their governor, the flags of the processor.

https://docs.kernel.org/admin-guide/pm/cpufreq.html
"""

from __future__ import annotations

import hashlib
import platform
import re
from pathlib import Path

_PROCESSORS = Path("/sys/devices/system/cpu")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_FREQUENCIES = {
    "base clock": "cpu0/cpufreq/base_frequency",
    "maximum clock": "cpu0/cpufreq/cpuinfo_max_freq",
    "clock limit": "cpu0/cpufreq/scaling_max_freq",
}
_WORDS = {
    "governor": "cpu0/cpufreq/scaling_governor",
    "boost": "cpufreq/boost",
    "no turbo": "intel_pstate/no_turbo",
}


def describe() -> dict[str, str]:
    """Return what Linux reports, by name; what it does not report is left out."""
    found = {"kernel": platform.release(), "flags of the processor": flags_digest()}
    found |= {name: _megahertz(_read(_PROCESSORS / path)) for name, path in _FREQUENCIES.items()}
    found |= {name: _read(_PROCESSORS / path) for name, path in _WORDS.items()}
    chosen = re.search(r"\[(\w+)\]", _read(_HUGE_PAGES))
    found["transparent huge pages"] = chosen[1] if chosen else ""
    return {name: text for name, text in found.items() if text}


def processor_flags() -> set[str]:
    """Return the instruction sets of the processor, as Linux names them; empty if unknown."""
    listed = re.search(r"^(?:flags|Features)\s*:(.*)$", _read(Path("/proc/cpuinfo")), re.MULTILINE)
    return set(listed[1].split()) if listed else set()


def flags_digest() -> str:
    """Return a digest of all flags, for the list has 1500 characters; empty if unknown."""
    flags = " ".join(sorted(processor_flags()))
    return hashlib.sha256(flags.encode()).hexdigest()[:12] if flags else ""


def _megahertz(kilohertz: str) -> str:
    return f"{int(kilohertz) // 1000} MHz" if kilohertz.isdecimal() else ""


def _read(path: Path) -> str:
    """Return the text of a file of the kernel's; empty where it has no such file."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
