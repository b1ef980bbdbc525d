"""A directory as a list: each entry with its type and size, in the order of their names."""

import os
import stat
from pathlib import Path

from a2a_bridge.hosts.local.files.file_type import type_name
from a2a_bridge.hosts.local.files.path_text import quote_name


def list_entries(path: Path) -> list["os.DirEntry[str]"]:
    """What the directory has. Raises OSError."""
    with os.scandir(path) as found:
        return sorted(found, key=lambda entry: entry.name)


def describe(entry: "os.DirEntry[str]") -> str:
    """One entry in a line."""
    name = quote_name(entry.name)
    try:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return f"{name} -> {quote_name(os.readlink(entry.path))}  (symbolic link)"
    except OSError as error:
        return f"{name}  ({error.strerror})"
    if stat.S_ISDIR(status.st_mode):
        return f"{name}/"
    if stat.S_ISREG(status.st_mode):
        return f"{name}  {status.st_size} bytes"
    return f"{name}  ({type_name(status.st_mode)})"
