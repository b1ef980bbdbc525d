"""`python -m a2a_bridge` is the `a2a-bridge` command."""

from a2a_bridge.cli.main import main

if __name__ == "__main__":
    main()
