"""Where omp keeps its things, found as omp finds them.

The agent directory is `~/.omp/agent`, moved by `PI_CODING_AGENT_DIR`, by `PI_CONFIG_DIR` (a name below the home
directory), or by a profile (`--profile`, `OMP_PROFILE`, `PI_PROFILE`). Plugins lie beside it, or where
`XDG_DATA_HOME` has a directory of omp's.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from a2a_bridge.errors import InstallError

_PROFILE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


class Directories(NamedTuple):
    """omp's agent directory, and that of its plugins."""

    agent: Path
    plugins: Path

    @property
    def extensions(self) -> Path:
        return self.agent / "extensions"


def directories(environ: Mapping[str, str], profile: str | None = None) -> Directories:
    """omp's directories, for this profile or the environment's. Raises InstallError for a name that omp refuses."""
    chosen = _name(profile if profile is not None else environ.get("OMP_PROFILE", environ.get("PI_PROFILE", "")))
    root = _root(environ, chosen)
    agent = root / "agent"
    if not chosen and (moved := environ.get("PI_CODING_AGENT_DIR")) and not _inherited(environ, moved):
        agent = Path(os.path.abspath(moved))
    return Directories(agent, _plugins(environ, chosen, root, agent == root / "agent"))


def _name(profile: str) -> str:
    name = profile.strip()
    if name in ("", "default"):
        return ""
    if not _PROFILE.fullmatch(name) or name.endswith(".") or _RESERVED.fullmatch(name):
        raise InstallError(
            f"profile {profile!r} is no name that omp takes; expected lower-case letters, digits, . _ and -"
        )
    return name


def _root(environ: Mapping[str, str], profile: str) -> Path:
    home = environ.get("HOME") or str(Path.home())
    root = Path(os.path.normpath(f"{home}/{environ.get('PI_CONFIG_DIR') or '.omp'}"))
    return root / "profiles" / profile if profile else root


def _inherited(environ: Mapping[str, str], moved: str) -> bool:
    """An omp with a profile leaves that profile's directory in the environment of what it starts."""
    for variable in ("OMP_PROFILE", "PI_PROFILE"):
        name = environ.get(variable, "").strip()
        if name not in ("", "default"):
            return moved == str(_root(environ, name) / "agent")
    return False


def _plugins(environ: Mapping[str, str], profile: str, root: Path, unmoved: bool) -> Path:
    data = environ.get("XDG_DATA_HOME")
    if data and unmoved:
        place = Path(data) / "omp" / (Path("profiles") / profile if profile else "")
        if place.exists():
            return place / "plugins"
    return root / "plugins"
