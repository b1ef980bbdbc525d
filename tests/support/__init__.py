"""What the tests share: callers of the contract, and the processes that they call."""
