package io.taskyard.client;

import io.grpc.Deadline;
import io.taskyard.v1.CancelTaskRequest;
import io.taskyard.v1.GetLogsRequest;
import io.taskyard.v1.GetLogsResponse;
import io.taskyard.v1.GetTaskRequest;
import io.taskyard.v1.StoredLogLine;
import io.taskyard.v1.StreamLogsRequest;
import io.taskyard.v1.StreamLogsResponse;
import io.taskyard.v1.TaskInstance;
import io.taskyard.v1.TaskStatus;
import io.taskyard.v1.WatchTasksRequest;
import io.taskyard.v1.WatchTasksResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** A task that was accepted. Methods block; on virtual threads that costs nothing. */
public final class TaskHandle {
  private static final Set<TaskStatus> ENDED =
      Set.of(
          TaskStatus.TASK_STATUS_SUCCESS,
          TaskStatus.TASK_STATUS_FAILED,
          TaskStatus.TASK_STATUS_TIMEOUT,
          TaskStatus.TASK_STATUS_CANCELLED,
          TaskStatus.TASK_STATUS_SKIPPED);

  private final Calls calls;
  private final String id;
  private final boolean repeated;

  TaskHandle(Calls calls, String id, boolean repeated) {
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

  /** Returns how it stands now. */
  public TaskInstance get() {
    GetTaskRequest request = GetTaskRequest.newBuilder().setTaskId(id).build();
    return Calls.call(() -> calls.tasks().getTask(request)).getTask();
  }

  /**
   * Waits for its end, however it ends.
   *
   * @throws TaskyardException.DeadlineExceeded it has not ended by then; it goes on
   */
  public TaskInstance await(Duration timeout) {
    Deadline deadline = Deadline.after(timeout.toNanos(), TimeUnit.NANOSECONDS);
    WatchTasksRequest request = WatchTasksRequest.newBuilder().addTaskIds(id).build();
    var following =
        new Following<WatchTasksResponse>(
            calls.timeout(), () -> calls.tasks().withDeadline(deadline).watchTasks(request));
    return following.until(TaskHandle::ended, () -> null);
  }

  /**
   * Waits for its end and returns its output.
   *
   * @param type what Jackson reads the output as
   * @throws NotSuccessfulException it did not end in success
   * @throws TaskyardException.DeadlineExceeded it has not ended by then; it goes on
   */
  public <T> T result(Class<T> type, Duration timeout) {
    TaskInstance task = await(timeout);
    if (task.getStatus() != TaskStatus.TASK_STATUS_SUCCESS) {
      String status = task.getStatus().name().replace("TASK_STATUS_", "");
      throw new NotSuccessfulException(
          id, status, task.getError().getKind(), task.getError().getMessage());
    }
    return Protos.value(calls.mapper(), task.getOutputJson(), type);
  }

  /** Does what {@link #result} does on a virtual thread. */
  public <T> CompletableFuture<T> resultAsync(Class<T> type, Duration timeout) {
    return CompletableFuture.supplyAsync(() -> result(type, timeout), Thread::startVirtualThread);
  }

  /** Returns the lines that its last attempt has written until now. */
  public List<StoredLogLine> logs() {
    List<StoredLogLine> lines = new ArrayList<>();
    GetLogsRequest.Builder request = GetLogsRequest.newBuilder().setTaskId(id);
    do {
      GetLogsResponse page = Calls.call(() -> calls.tasks().getLogs(request.build()));
      lines.addAll(page.getLinesList());
      request.setPageToken(page.getNextPageToken());
    } while (!request.getPageToken().isEmpty());
    return lines;
  }

  /** Hands on each line of every attempt, once and in order, until the task has ended. */
  public void follow(Consumer<StoredLogLine> each) {
    StreamLogsRequest.Builder from = StreamLogsRequest.newBuilder().setTaskId(id);
    var following =
        new Following<StreamLogsResponse>(
            calls.timeout(), () -> calls.tasks().streamLogs(from.build()));
    following.until(
        response -> {
          for (StoredLogLine line : response.getLinesList()) {
            each.accept(line);
            from.setAfterAttempt(line.getAttempt()).setAfterLine(line.getLine());
          }
          return null;
        },
        () -> true);
  }

  /** Asks for its end; returns how it stands then, which is CANCELLING while a worker has it. */
  public TaskStatus cancel(String reason) {
    CancelTaskRequest request =
        CancelTaskRequest.newBuilder()
            .setRequestId(UUID.randomUUID().toString())
            .setTaskId(id)
            .setReason(reason)
            .build();
    return Calls.call(() -> calls.tasks().cancelTask(request)).getStatus();
  }

  private static TaskInstance ended(WatchTasksResponse response) {
    return response.getTasksList().stream()
        .filter(task -> ENDED.contains(task.getStatus()))
        .findFirst()
        .orElse(null);
  }
}
