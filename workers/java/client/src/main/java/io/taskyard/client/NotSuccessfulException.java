package io.taskyard.client;

/** A task or run has ended, but not well. */
public final class NotSuccessfulException extends RuntimeException {
  private final String id;
  private final String status;
  private final String kind;

  NotSuccessfulException(String id, String status, String kind, String message) {
    super(
        id
            + " ended as "
            + status
            + (kind.isEmpty() ? "" : ": " + kind)
            + (message.isEmpty() ? "" : ": " + message));
    this.id = id;
    this.status = status;
    this.kind = kind;
  }

  /** Returns whose end it is. */
  public String id() {
    return id;
  }

  /** Returns how it ended, as the contract names it. */
  public String status() {
    return status;
  }

  /** Returns the kind of the task's error; empty for runs. */
  public String kind() {
    return kind;
  }
}
