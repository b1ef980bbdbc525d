"""The style sheet: the terminal's own colours, and no frame or scrollbar that the lines do not draw themselves."""

THEME = "ansi-dark"

CSS = """
Screen { layout: vertical; overflow: hidden; background: ansi_default; color: ansi_default; }
Input, Input:focus {
    height: 1; border: none; padding: 0 1; background: ansi_default; color: ansi_default;
}
Input > .input--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
"""
