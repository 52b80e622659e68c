package io.taskyard.worker.work;

import io.taskyard.v1.CancelAttempt;
import io.taskyard.v1.TaskStatus;
import java.time.Duration;

/**
 * An order to stop an attempt.
 *
 * @param cause why
 * @param message why, for people
 * @param grace between the polite request and the kill
 */
public record Stop(Cause cause, String message, Duration grace) {
  /** The grace where nobody says another. */
  public static final Duration GRACE = Duration.ofSeconds(10);

  /** Why an attempt is stopped, and the status that its result will have. */
  public enum Cause {
    CANCELLED(TaskStatus.TASK_STATUS_CANCELLED, "the task was cancelled"),
    TIMEOUT(TaskStatus.TASK_STATUS_TIMEOUT, "the task ran out of time"),
    FENCED(TaskStatus.TASK_STATUS_UNSPECIFIED, "another attempt takes its place"),
    DRAINED(TaskStatus.TASK_STATUS_INTERRUPTED, "the worker stops");

    private final TaskStatus status;
    private final String words;

    Cause(TaskStatus status, String words) {
      this.status = status;
      this.words = words;
    }

    /** The result's status; unspecified when there is to be none. */
    public TaskStatus status() {
      return status;
    }

    static Cause of(CancelAttempt order) {
      return switch (order.getReason()) {
        case "timeout" -> TIMEOUT;
        case "fenced" -> FENCED;
        default -> CANCELLED;
      };
    }

    /** An order in the words of this cause. */
    public Stop order(Duration grace) {
      return new Stop(this, words, grace);
    }
  }

  static Stop ranOut(long timeoutMs) {
    String limit =
        new java.math.BigDecimal(timeoutMs).movePointLeft(3).stripTrailingZeros().toPlainString();
    return new Stop(Cause.TIMEOUT, "ran longer than its timeout of " + limit + " s", GRACE);
  }

  /**
   * How an attempt ended under this order: as ordered, unless it was done before the worker's end.
   */
  Ending ending(Ending own) {
    if (cause == Cause.DRAINED && own.itself()) {
      return own;
    }
    return Ending.unsuccessful(cause.status, "", message);
  }
}
