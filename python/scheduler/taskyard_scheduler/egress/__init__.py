"""From rows and live instances to messages of the contract. Decides nothing and validates nothing."""
