"""From messages of the contract to the core's events: validation at the door. Nothing is half-accepted here."""
