"""The gRPC services: each call becomes an event or a question. No rule of scheduling lives here."""
