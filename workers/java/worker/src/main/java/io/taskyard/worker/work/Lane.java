package io.taskyard.worker.work;

import java.time.Duration;

/**
 * Where an attempt runs: a thread or a process. It tells {@link AttemptHost} when the handler was
 * entered and when it has ended, and is called on the loop, so it must not block.
 */
public interface Lane {
  /** Begins. */
  void start();

  /** Asks the handler to stop; a process is killed at the end of the grace. */
  void stop(Stop order);

  /** Lets the attempt live so long from now on, for one that must be dead before its lease ends. */
  void renew(Duration lease);

  /** Whether the handler can be made to end. */
  boolean killable();
}
