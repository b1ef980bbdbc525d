"""The terminal console: what a bridge does, as its owner sees it, and the owner's answers. A client of the socket."""
