package io.taskyard.builtin.input;

import io.taskyard.worker.TaskOutcome;

/**
 * A task that no retry can mend: its input breaks a rule, or what it names is not what it must be.
 */
public final class Refusal extends Exception {
  private static final long serialVersionUID = 1L;

  private final String kind;

  private Refusal(String kind, String message) {
    super(message);
    this.kind = kind;
  }

  /** The input breaks a rule: the message names the field, its value, the rule and the way out. */
  public static Refusal invalid(String message, Object... values) {
    return new Refusal(TaskOutcome.INVALID_INPUT, message.formatted(values));
  }

  /** The same task would fail again. */
  public static Refusal nonRetryable(String message, Object... values) {
    return new Refusal(TaskOutcome.NON_RETRYABLE, message.formatted(values));
  }

  /** How the attempt ends. */
  public TaskOutcome outcome() {
    return TaskOutcome.failure(kind, getMessage());
  }
}
