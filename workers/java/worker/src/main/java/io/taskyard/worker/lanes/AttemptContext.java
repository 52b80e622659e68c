package io.taskyard.worker.lanes;

import io.taskyard.v1.TaskAssignment;
import io.taskyard.worker.Artifacts;
import io.taskyard.worker.TaskContext;
import io.taskyard.worker.work.Attempt;
import io.taskyard.worker.work.AttemptHost;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.ExecutionException;

/** One attempt, as its handler sees it in the worker's process. */
final class AttemptContext implements TaskContext {
  private final Attempt attempt;
  private final TaskAssignment assignment;
  private final AttemptHost host;
  private final Artifacts artifacts;
  private volatile boolean over;

  AttemptContext(Attempt attempt, AttemptHost host, Artifacts artifacts) {
    this.attempt = attempt;
    this.assignment = attempt.assignment();
    this.host = host;
    this.artifacts = artifacts;
  }

  /** The handler has ended: what threads that it left behind say is not its attempt's. */
  void close() {
    over = true;
  }

  @Override
  public String taskId() {
    return assignment.getTaskId();
  }

  @Override
  public String taskType() {
    return assignment.getTaskType();
  }

  @Override
  public int attempt() {
    return assignment.getAttempt();
  }

  @Override
  public String tenant() {
    return assignment.getTenant();
  }

  @Override
  public Optional<String> runId() {
    return filled(assignment.getRunId());
  }

  @Override
  public Optional<String> stepId() {
    return filled(assignment.getStepId());
  }

  @Override
  public Optional<Duration> timeout() {
    long limit = assignment.getTimeoutMs();
    return limit > 0 ? Optional.of(Duration.ofMillis(limit)) : Optional.empty();
  }

  @Override
  public Optional<String> traceparent() {
    return filled(assignment.getTraceparent());
  }

  private static Optional<String> filled(String text) {
    return Optional.of(text).filter(given -> !given.isEmpty());
  }

  @Override
  public String completionToken() {
    return assignment.getAttemptToken();
  }

  @Override
  public boolean isCancelled() {
    return attempt.stop().isPresent();
  }

  @Override
  public void onCancel(Runnable action) {
    attempt.onStop(order -> Thread.startVirtualThread(() -> guarded(action)));
  }

  private void guarded(Runnable action) {
    try {
      action.run();
    } catch (RuntimeException error) {
      write("log", "ERROR", Failures.stackTrace(error));
    }
  }

  @Override
  public void log(String line) {
    write("log", "INFO", line);
  }

  private void write(String stream, String level, String line) {
    if (!over) {
      host.log(attempt, stream, level, line);
    }
  }

  void failed(Throwable error) {
    write("log", "ERROR", Failures.stackTrace(error));
  }

  @Override
  public void stream(String text) {
    if (!over) {
      host.stream(attempt, text);
    }
  }

  @Override
  public void progress(double percent, String message) {
    Reported.checkPercent(percent);
    host.progress(attempt, percent, Reported.message(message));
  }

  @Override
  public Optional<String> checkpoint() {
    return attempt.checkpoint();
  }

  @Override
  public void saveCheckpoint(String state) throws InterruptedException {
    try {
      if (!host.checkpoint(attempt, Reported.checkpoint(state)).get()) {
        throw new InterruptedException("the attempt stopped before its checkpoint was committed");
      }
    } catch (ExecutionException error) {
      throw new IllegalStateException("a checkpoint is answered with a value", error);
    }
  }

  @Override
  public Artifacts artifacts() {
    return artifacts;
  }
}
