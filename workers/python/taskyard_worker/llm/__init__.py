"""Chat completions of OpenAI-compatible endpoints: their events, the answer that these make, its schema."""
