"""How anything local talks to a running bridge: a Unix socket for its owner alone, newline-delimited JSON-RPC 2.0."""
