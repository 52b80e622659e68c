"""What workers in every language have in common: golden vectors, and the kit that plays scenarios with a worker."""
