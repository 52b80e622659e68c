"""The conformance kit: plays the scheduler's side of the contract, told by scenarios, against any worker's command."""
