"""The real omp (from npm, on bun) as host, in homes of its own: no credentials, a model nobody reaches."""
