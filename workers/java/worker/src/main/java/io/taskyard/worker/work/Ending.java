package io.taskyard.worker.work;

import io.taskyard.v1.TaskResult;
import io.taskyard.v1.TaskStatus;
import io.taskyard.worker.TaskOutcome;
import io.taskyard.worker.text.Utf8;
import java.util.Map;

/**
 * How an attempt ended, as it is reported.
 *
 * @param status its status; unspecified: it stopped as it was told to
 * @param output what the handler returned, as JSON; empty: nothing
 * @param error why it did not succeed, for people
 * @param kind machine-readable reason of a failure
 * @param metadata further facts
 * @param deferMs how long the result of a deferred one is waited for; 0: the default
 */
public record Ending(
    TaskStatus status,
    String output,
    String error,
    String kind,
    Map<String, String> metadata,
    long deferMs) {
  /** It was told to stop, and did. */
  public static final Ending STOPPED =
      new Ending(TaskStatus.TASK_STATUS_UNSPECIFIED, "", "", "", Map.of(), 0);

  private static final int MAX_ERROR_BYTES = 64 * 1024;
  private static final String CUT = " … [cut]";

  /** It succeeded with this output, as JSON. */
  public static Ending success(String output, Map<String, String> metadata) {
    return new Ending(TaskStatus.TASK_STATUS_SUCCESS, output, "", "", metadata, 0);
  }

  /** It failed. */
  public static Ending failure(String kind, String error) {
    return unsuccessful(TaskStatus.TASK_STATUS_FAILED, kind, error);
  }

  /** It failed, with further facts. */
  public static Ending failure(TaskOutcome.Failure failure) {
    return new Ending(
        TaskStatus.TASK_STATUS_FAILED,
        "",
        cut(failure.message()),
        failure.kind(),
        failure.metadata(),
        0);
  }

  /** Its result comes from outside. */
  public static Ending deferred(long deferMs) {
    return new Ending(TaskStatus.TASK_STATUS_DEFERRED, "", "", "", Map.of(), deferMs);
  }

  static Ending unsuccessful(TaskStatus status, String kind, String error) {
    return new Ending(status, "", cut(error), kind, Map.of(), 0);
  }

  static Ending unknownType(String taskType) {
    String shown = taskType.substring(0, Math.min(200, taskType.length()));
    return unsuccessful(
        TaskStatus.TASK_STATUS_REJECTED,
        "UNKNOWN_TASK_TYPE",
        "this worker has no handler for task type '" + shown + "'");
  }

  /** Of an exclusive or isolated task: on a thread nothing could kill it. */
  static Ending cannotBeKilled(String taskType) {
    return failure(
        TaskOutcome.NON_RETRYABLE,
        ("a task of type '%s' that is exclusive or isolated runs in a process that can be killed, and this worker runs"
                + " it on a thread; leave 'exclusive' out, offer the type IN_PROCESS, or select another worker")
            .formatted(taskType));
  }

  private static String cut(String error) {
    return Utf8.cut(error, MAX_ERROR_BYTES, CUT);
  }

  boolean succeeded() {
    return status == TaskStatus.TASK_STATUS_SUCCESS;
  }

  /** Whether the handler came to an end of its own. */
  boolean itself() {
    return succeeded()
        || status == TaskStatus.TASK_STATUS_FAILED
        || status == TaskStatus.TASK_STATUS_DEFERRED;
  }

  TaskResult result(String taskId, String token, long durationMs) {
    return TaskResult.newBuilder()
        .setTaskId(taskId)
        .setAttemptToken(token)
        .setStatus(status)
        .setOutputJson(output)
        .setErrorMessage(error)
        .setErrorKind(kind)
        .setDurationMs(durationMs)
        .setDeferTimeoutMs(deferMs)
        .putAllMetadata(metadata)
        .build();
  }
}
