"""How the built-in tasks speak to HTTP servers: connections, waiting as a server asks, OpenAI-compatible endpoints."""
