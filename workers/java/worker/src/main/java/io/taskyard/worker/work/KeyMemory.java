package io.taskyard.worker.work;

import java.util.Optional;

/** Remembers first successes by tenant and idempotency key. Used on the loop. */
public interface KeyMemory {
  /** The first output as JSON; empty when the key is not known (any more). */
  Optional<String> find(String tenant, String key);

  /** Remembers an output, unless there is one already. On disk with the next `save`. */
  void remember(String tenant, String key, String output);

  /** Writes what is new. */
  void save();
}
