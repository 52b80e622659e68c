package io.taskyard.worker;

import java.io.IOException;

/**
 * An artifact could not be read or stored. A handler that lets it out fails with its kind: what was
 * taken away or never was is INVALID_INPUT, what cannot be had now is HANDLER_ERROR, which the
 * retry policy may try again.
 */
public final class ArtifactException extends IOException {
  private final String kind;

  /**
   * Says what went wrong.
   *
   * @param kind machine-readable reason, as of a {@link TaskOutcome.Failure}
   * @param message for people
   */
  public ArtifactException(String kind, String message) {
    super(message);
    this.kind = kind;
  }

  /** Machine-readable reason. */
  public String kind() {
    return kind;
  }
}
