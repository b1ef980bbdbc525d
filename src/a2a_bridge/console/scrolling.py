"""The part of a list that is on the screen, and how far it has moved."""


def moved(offset: int, index: int | None, height: int, total: int) -> int:
    """The offset, changed no more than needed to have row `index` in view and no empty room below the last row."""
    offset = max(0, min(offset, total - height))
    if index is None or height < 1:
        return offset
    return min(max(offset, index - height + 1), index)


def span(offset: int, height: int, total: int) -> str:
    """Which rows are in view, for people; empty when all are."""
    if total <= height:
        return ""
    return f"{offset + 1:,}–{min(total, offset + height):,} of {total:,}"
