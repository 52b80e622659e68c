"""Vectors of texts: computed here by hashing their words, or asked of an OpenAI-compatible endpoint."""
