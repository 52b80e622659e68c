package io.taskyard.worker.work;

import io.taskyard.worker.TaskRegistry;

/** Makes the place where an attempt runs. */
@FunctionalInterface
public interface Lanes {
  /** A thread, or a process for what is isolated or exclusive. */
  Lane of(Attempt attempt, TaskRegistry.Entry entry, AttemptHost host);
}
