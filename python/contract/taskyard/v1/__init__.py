"""Messages and services of taskyard.v1. Generated from proto/ by `make proto`; do not edit."""
