"""Gives uv the package index that pip is configured with: uv reads nothing of pip's configuration.

https://docs.astral.sh/uv/pip/compatibility/#configuration-files-and-environment-variables
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping

#: The options of pip that say where distributions come from, the variable of uv that says the same,
#: and what separates several values in it.
_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
}
#: The variables with which a user names an index to uv itself: then pip's does not count.
_OF_UV = (
    *("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL"),
    *("UV_FIND_LINKS", "UV_NO_INDEX", "UV_CONFIG_FILE"),
)
#: The sections of pip's configuration that count in an installation. A later one overrides an
#: earlier one.
_SECTIONS = ("global", "install", ":env:")
#: A line of ``pip config list``.
_LINE = re.compile(r"(?P<section>[^.\s]+)\.(?P<name>[\w-]+)=(?P<value>.+)")


def for_uv() -> tuple[list[str], dict[str, str]]:
    """Return the options and the variables with which uv installs from pip's index.

    The variables may hold a password, which options would show to other users of the machine.
    """
    if any(os.environ.get(name) for name in _OF_UV):
        return [], {}
    found = settings()
    variables = {}
    for name, (variable, separator) in _VARIABLES.items():
        if (value := found.get(name)) and variable not in os.environ:
            variables[variable] = separator.join(value.split())
    if "extra-index-url" in found:
        # pip takes the best version of all indexes, uv by default that of the first.
        variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    has_no_index = found.get("no-index", "").lower() in ("1", "true", "yes", "on")
    return ["--no-index"] * has_no_index, variables


def settings() -> Mapping[str, str]:
    """Return what pip is configured with, by the names of its options."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for section, name, value in _listed() or _of_variables():
        if section in found:
            found[section][name] = value
    return {name: value for section in _SECTIONS for name, value in found[section].items()}


def _listed() -> list[tuple[str, str, str]]:
    """Return section, option and value of what pip lists; nothing where there is no pip."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    listed = []
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        if found := _LINE.fullmatch(line):
            with contextlib.suppress(ValueError, SyntaxError):
                value = str(ast.literal_eval(found["value"]))
                listed.append((found["section"], found["name"], value))
    return listed


def _of_variables() -> Iterator[tuple[str, str, str]]:
    """Yield the same of the variables alone."""
    for name, value in os.environ.items():
        if name.startswith("PIP_") and value:
            yield ":env:", name.removeprefix("PIP_").lower().replace("_", "-"), value
