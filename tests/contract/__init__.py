"""The wire contract, rule by rule: each test is named after its rule and runs in memory and over HTTP."""
