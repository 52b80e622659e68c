"""The whole system as real processes: real servers, real faults, and a check of the whole history afterwards."""
