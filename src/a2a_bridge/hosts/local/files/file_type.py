"""What a file is that is no regular one, in a word."""

import stat

_KINDS = {
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


def type_name(mode: int) -> str:
    """The name of a mode's file type."""
    return _KINDS.get(stat.S_IFMT(mode), "special file")
