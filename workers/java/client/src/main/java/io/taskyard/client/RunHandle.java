package io.taskyard.client;

import io.grpc.Deadline;
import io.taskyard.v1.CancelRunRequest;
import io.taskyard.v1.GetRunRequest;
import io.taskyard.v1.GetRunResponse;
import io.taskyard.v1.Run;
import io.taskyard.v1.RunState;
import io.taskyard.v1.WatchRunRequest;
import io.taskyard.v1.WatchRunResponse;
import java.time.Duration;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** A run of a workflow that was accepted. Methods block; on virtual threads that costs nothing. */
public final class RunHandle {
  private static final Set<RunState> ENDED =
      Set.of(RunState.RUN_STATE_SUCCEEDED, RunState.RUN_STATE_FAILED, RunState.RUN_STATE_CANCELLED);

  private final Calls calls;
  private final String id;
  private final boolean repeated;

  RunHandle(Calls calls, String id, boolean repeated) {
    this.calls = calls;
    this.id = id;
    this.repeated = repeated;
  }

  /** Returns its id. */
  public String id() {
    return id;
  }

  /** Tells whether an earlier submission with the same request id or key made it. */
  public boolean repeated() {
    return repeated;
  }

  /** Returns how it and its steps stand now. */
  public GetRunResponse get() {
    GetRunRequest request = GetRunRequest.newBuilder().setRunId(id).build();
    return Calls.call(() -> calls.workflows().getRun(request));
  }

  /**
   * Waits for its end, however it ends.
   *
   * @throws TaskyardException.DeadlineExceeded it has not ended by then; it goes on
   */
  public Run await(Duration timeout) {
    Deadline deadline = Deadline.after(timeout.toNanos(), TimeUnit.NANOSECONDS);
    WatchRunRequest request = WatchRunRequest.newBuilder().setRunId(id).build();
    var following =
        new Following<WatchRunResponse>(
            calls.timeout(), () -> calls.workflows().withDeadline(deadline).watchRun(request));
    return following.until(
        response -> ENDED.contains(response.getRun().getState()) ? response.getRun() : null,
        () -> null);
  }

  /**
   * Waits for its end and returns its output.
   *
   * @param type what Jackson reads the output as
   * @throws NotSuccessfulException it did not succeed
   */
  public <T> T result(Class<T> type, Duration timeout) {
    Run run = await(timeout);
    if (run.getState() != RunState.RUN_STATE_SUCCEEDED) {
      String state = run.getState().name().replace("RUN_STATE_", "");
      throw new NotSuccessfulException(id, state, "", run.getErrorMessage());
    }
    return Protos.value(calls.mapper(), run.getOutputJson(), type);
  }

  /** Does what {@link #result} does on a virtual thread. */
  public <T> CompletableFuture<T> resultAsync(Class<T> type, Duration timeout) {
    return CompletableFuture.supplyAsync(() -> result(type, timeout), Thread::startVirtualThread);
  }

  /** Asks for its end; returns how it stands then. */
  public RunState cancel(String reason) {
    CancelRunRequest request =
        CancelRunRequest.newBuilder()
            .setRequestId(UUID.randomUUID().toString())
            .setRunId(id)
            .setReason(reason)
            .build();
    return Calls.call(() -> calls.workflows().cancelRun(request)).getState();
  }
}
