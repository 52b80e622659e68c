package io.taskyard.worker.artifacts;

import io.grpc.Status;
import io.taskyard.worker.ArtifactException;
import io.taskyard.worker.TaskOutcome;
import io.taskyard.worker.link.Backoff;
import io.taskyard.worker.link.LinkException;
import java.time.Duration;
import java.util.random.RandomGenerator;

/** Tries a transfer again while the scheduler does not answer. Told to stop, it ends at once. */
final class Patience {
  /** How long is waited in all, between tries. */
  static final Duration MINUTE = Duration.ofMinutes(1);

  /** For what is done when the work is: as long as the attempt may run. */
  static final Duration ENDLESS = Duration.ofDays(36_500);

  /** One try. */
  interface Try<T> {
    T run() throws LinkException, ArtifactException, InterruptedException;
  }

  private Patience() {}

  static <T> T with(Duration patience, Try<T> once) throws ArtifactException, InterruptedException {
    Backoff backoff = new Backoff(RandomGenerator.getDefault());
    Duration left = patience;
    while (true) {
      try {
        return once.run();
      } catch (LinkException error) {
        Duration wait = backoff.next();
        wait = wait.compareTo(error.retryAfter()) > 0 ? wait : error.retryAfter();
        left = left.minus(wait);
        if (left.isNegative() || !passes(error)) {
          throw told(error);
        }
        Thread.sleep(wait);
      }
    }
  }

  /**
   * Whether the same may succeed later. Of a connection that breaks while something is being sent
   * gRPC says INTERNAL or UNKNOWN; the scheduler's own has a reason.
   */
  private static boolean passes(LinkException error) {
    return error.repeatable()
        || error.code() == Status.Code.CANCELLED
        || error.code() == Status.Code.DEADLINE_EXCEEDED
        || (!error.hasReason()
            && (error.code() == Status.Code.INTERNAL || error.code() == Status.Code.UNKNOWN));
  }

  private static ArtifactException told(LinkException error) {
    String kind =
        switch (error.code()) {
          case NOT_FOUND, INVALID_ARGUMENT -> TaskOutcome.INVALID_INPUT;
          case RESOURCE_EXHAUSTED ->
              error.hasReason("ARTIFACT_TOO_LARGE")
                  ? "OUTPUT_TOO_LARGE"
                  : TaskOutcome.HANDLER_ERROR;
          default -> TaskOutcome.HANDLER_ERROR;
        };
    ArtifactException told = new ArtifactException(kind, error.getMessage());
    told.initCause(error);
    return told;
  }
}
