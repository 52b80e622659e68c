package io.taskyard.worker.lanes;

import com.fasterxml.jackson.core.JsonProcessingException;
import io.taskyard.worker.TaskOutcome;
import io.taskyard.worker.json.TaskJson;
import io.taskyard.worker.text.Utf8;
import io.taskyard.worker.work.Ending;
import java.time.Duration;

/** Turns what a handler returned into what is reported. */
public final class Endings {
  /** The most that a result carries itself; a larger output is an artifact. */
  public static final int MAX_OUTPUT_BYTES = 256 * 1024;

  private static final Duration MAX_DEFERRAL = Duration.ofDays(30);

  private Endings() {}

  /**
   * The ending that an outcome means.
   *
   * @param told whether the attempt was told to stop
   */
  public static Ending of(TaskOutcome outcome, boolean told) {
    return switch (outcome) {
      case TaskOutcome.Success success -> success(success);
      case TaskOutcome.Failure failure -> Ending.failure(failure);
      case TaskOutcome.Deferred deferred -> deferred(deferred.within());
      case TaskOutcome.Cancelled ignored when told -> Ending.STOPPED;
      case TaskOutcome.Cancelled ignored ->
          Ending.failure(Failures.notTold("returned that it was cancelled"));
      case null ->
          Ending.failure(
              TaskOutcome.NON_RETRYABLE,
              "the handler returned null; return TaskOutcome.success(null) for no output");
    };
  }

  private static Ending success(TaskOutcome.Success success) {
    try {
      return Ending.success(Utf8.valid(TaskJson.output(success.output())), success.metadata());
    } catch (JsonProcessingException | StackOverflowError error) {
      return Ending.failure(
          TaskOutcome.NON_RETRYABLE,
          "the handler returned what JSON cannot hold (%s); return maps, lists, records, text and numbers"
              .formatted(Failures.describe(error)));
    }
  }

  private static Ending deferred(Duration within) {
    if (within.isZero() || within.isNegative() || within.compareTo(MAX_DEFERRAL) > 0) {
      return Ending.failure(
          TaskOutcome.NON_RETRYABLE,
          "the handler defers for %s, but a result from outside is waited for more than 0 s and at most 30 days"
              .formatted(within));
    }
    return Ending.deferred(Math.max(1, within.toMillis()));
  }

  /** Whether an output has to become an artifact. */
  public static boolean isLarge(Ending ending) {
    return ending.output().length() * 3L > MAX_OUTPUT_BYTES
        && Utf8.size(ending.output()) > MAX_OUTPUT_BYTES;
  }
}
