package io.taskyard.connection;

import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.DoubleSupplier;

/**
 * How long to wait before a call is made again, if that can help.
 *
 * @param random draws from 0 to 1, for the jitter
 */
record Pauses(DoubleSupplier random) {
  private static final List<Duration> WAITS =
      List.of(Duration.ofMillis(100), Duration.ofMillis(200), Duration.ofMillis(400));
  private static final double JITTER = 0.2;

  /** Returns the wait after the attempt of this number, which is 1 for the first. */
  Optional<Duration> after(int attempt, Status status, Metadata trailers) {
    if (attempt > WAITS.size()) {
      return Optional.empty();
    }
    Duration wait = jittered(WAITS.get(attempt - 1));
    return switch (status.getCode()) {
      case UNAVAILABLE -> Optional.of(wait);
      case RESOURCE_EXHAUSTED ->
          Details.of(status, trailers).retryAfter().map(asked -> longer(asked, wait));
      default -> Optional.empty();
    };
  }

  private Duration jittered(Duration wait) {
    double share = 1 + JITTER * (2 * random.getAsDouble() - 1);
    return Duration.ofNanos((long) (wait.toNanos() * share));
  }

  private static Duration longer(Duration one, Duration other) {
    return one.compareTo(other) >= 0 ? one : other;
  }

  static Duration of(RetryInfo info) {
    return Duration.ofSeconds(info.getRetryDelay().getSeconds(), info.getRetryDelay().getNanos());
  }
}
