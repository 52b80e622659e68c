package io.taskyard.worker;

import java.time.Duration;
import java.util.Optional;

/**
 * One attempt, as its handler sees it. Its methods may be called from any thread while the handler
 * runs.
 */
public interface TaskContext {

  /** The instance's id: a UUIDv7. */
  String taskId();

  /** Which handler runs it. */
  String taskType();

  /** Number of the attempt, from 1. */
  int attempt();

  /** The tenant that the task belongs to. */
  String tenant();

  /** The run that the task is a step of; empty when it stands alone. */
  Optional<String> runId();

  /** The step's id within the run; empty when it stands alone. */
  Optional<String> stepId();

  /** How long the attempt may run in all; empty: without a bound. */
  Optional<Duration> timeout();

  /** The caller's W3C trace context; empty when there is none. */
  Optional<String> traceparent();

  /**
   * What a service outside needs to report the result of a {@link TaskOutcome.Deferred} attempt, by
   * CompleteTask. It is as good as a password for that one result.
   */
  String completionToken();

  /** Whether the attempt is to stop. Its thread was interrupted when that was said. */
  boolean isCancelled();

  /**
   * Has something done when the attempt is told to stop, for handlers that wait where no interrupt
   * reaches; at once when it was told already. It runs on a thread of its own.
   *
   * @param action closes a connection, ends a process; what it throws goes to the task's log
   */
  void onCancel(Runnable action);

  /**
   * Writes a line to the task's log. Lines above 64 KiB are cut; above 10 MiB an attempt's log ends
   * with a mark.
   */
  void log(String line);

  /**
   * Shows text as it comes to whoever watches the output stream.
   *
   * @param text a piece of it, of any length
   */
  void stream(String text);

  /**
   * Tells how much is done.
   *
   * @param percent 0 to 100
   * @param message a line for people, at most 1,000 characters
   */
  void progress(double percent, String message);

  /** What an earlier attempt stored last; empty when none did. */
  Optional<String> checkpoint();

  /**
   * Stores what the next attempt shall get, and returns when it is committed.
   *
   * @param state at most 256 KiB
   * @throws InterruptedException the attempt was told to stop before it was committed
   */
  void saveCheckpoint(String state) throws InterruptedException;

  /** The store of large values. */
  Artifacts artifacts();
}
