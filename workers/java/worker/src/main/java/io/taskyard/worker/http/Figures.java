package io.taskyard.worker.http;

/** What a worker says of itself when somebody asks. Safe to call from any thread. */
public interface Figures {
  /** Why it takes no tasks; empty when it does. */
  String notReady();

  /** Attempts that run now. */
  int activeAttempts();

  /** Results that the scheduler has not acknowledged. */
  int unacknowledgedResults();

  /** Whether a stream is open. */
  boolean connected();

  /** Streams opened since the start. */
  int streamsOpened();

  /** Log lines that were not kept, because there were too many. */
  long droppedLogLines();
}
