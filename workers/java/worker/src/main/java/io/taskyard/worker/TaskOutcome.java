package io.taskyard.worker;

import java.time.Duration;
import java.util.Map;
import java.util.Objects;

/** How an attempt ended, as its handler says. */
public sealed interface TaskOutcome {

  /** A failure that no retry can mend. */
  String NON_RETRYABLE = "NON_RETRYABLE";

  /** The input breaks a rule; never tried again. */
  String INVALID_INPUT = "INVALID_INPUT";

  /** Any other failure; the task's retry policy decides. */
  String HANDLER_ERROR = "HANDLER_ERROR";

  /**
   * It succeeded.
   *
   * @param output becomes JSON: a map, a list, a record, a text, a number, or null for nothing;
   *     above 256 KiB of JSON it becomes an artifact by itself
   * @param metadata further facts for people and programs, such as token usage; at most 64
   */
  record Success(Object output, Map<String, String> metadata) implements TaskOutcome {
    public Success {
      metadata = Map.copyOf(metadata);
    }
  }

  /**
   * It failed.
   *
   * @param kind machine-readable reason, such as {@link #NON_RETRYABLE} or one of your own
   * @param message why, for people; cut at 64 KiB
   * @param metadata as for a success
   */
  record Failure(String kind, String message, Map<String, String> metadata) implements TaskOutcome {
    public Failure {
      Objects.requireNonNull(kind, "kind");
      Objects.requireNonNull(message, "message");
      metadata = Map.copyOf(metadata);
    }
  }

  /**
   * It stopped because it was told to; the same as letting an InterruptedException out. It ends as
   * CANCELLED, TIMEOUT or INTERRUPTED, whichever was ordered. Without an order it is a failure.
   */
  record Cancelled() implements TaskOutcome {}

  /**
   * The handler has ended and its slot is free; the result comes from outside, by CompleteTask.
   *
   * @param within how long it is waited for, up to 30 days; then the attempt ends as TIMEOUT
   */
  record Deferred(Duration within) implements TaskOutcome {
    public Deferred {
      Objects.requireNonNull(within, "within");
    }
  }

  /** It succeeded with this output. */
  static TaskOutcome success(Object output) {
    return new Success(output, Map.of());
  }

  /** It failed, and may be tried again. */
  static TaskOutcome failure(String message) {
    return new Failure(HANDLER_ERROR, message, Map.of());
  }

  /** It failed for a reason of this kind. */
  static TaskOutcome failure(String kind, String message) {
    return new Failure(kind, message, Map.of());
  }
}
