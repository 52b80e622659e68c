package io.taskyard.worker.session;

/** How the process ends: the same numbers as of every worker. */
public enum ExitCode {
  /** Drained, by a signal or by order. */
  DRAINED(0),
  /** Wrong settings, or no handlers. */
  USAGE(2),
  /** A fault of the worker. */
  FAULT(70),
  /** Another process took its id. */
  SUPERSEDED(71),
  /** The scheduler does not accept it. */
  NOT_ACCEPTED(72),
  /** Its token is refused. */
  UNAUTHENTICATED(73),
  /** Its data directory cannot be used. */
  DATA(74),
  /** A second signal: what ran was killed. */
  STOPPED_AT_ONCE(75);

  private final int number;

  ExitCode(int number) {
    this.number = number;
  }

  public int number() {
    return number;
  }
}
