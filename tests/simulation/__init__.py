"""The whole system in one process on virtual time: one seed, one history. See docs/simulation.md."""
