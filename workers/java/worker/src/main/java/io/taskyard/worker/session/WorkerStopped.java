package io.taskyard.worker.session;

/** The worker has to end; the message says why, to a person. */
public final class WorkerStopped extends Exception {
  private final ExitCode code;

  public WorkerStopped(ExitCode code, String message) {
    super(message);
    this.code = code;
  }

  public ExitCode code() {
    return code;
  }
}
