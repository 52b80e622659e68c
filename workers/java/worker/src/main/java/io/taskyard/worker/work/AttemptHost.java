package io.taskyard.worker.work;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** What lanes and contexts tell the worker of their attempt. From any thread; nothing waits. */
public interface AttemptHost {
  /** The handler was entered. */
  void entered(Attempt attempt);

  /** The handler has ended, and all that belongs to it. */
  void ended(Attempt attempt, Ending ending, Duration ran);

  /** It has come so far. */
  void progress(Attempt attempt, double percent, String message);

  /** A checkpoint is to be stored; false: the attempt stopped before it was. */
  CompletableFuture<Boolean> checkpoint(Attempt attempt, String state);

  /** A line for its log. */
  void log(Attempt attempt, String stream, String level, String line);

  /** Text that it gives out as it comes. */
  void stream(Attempt attempt, String text);
}
