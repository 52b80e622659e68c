"""What the steps of a scenario do: a verb is a function here, its parameters are the fields of the step."""

from conformance.kit.steps import assigning, expecting, payload, processes, real, ruling

__all__ = ["assigning", "expecting", "payload", "processes", "real", "ruling"]
