package io.taskyard.client;

import io.taskyard.v1.RetryPolicy;
import java.time.Duration;

/**
 * How often a task is tried.
 *
 * @param maxAttempts all attempts, the first included
 * @param firstDelay before the second attempt
 * @param factor by which each further delay is longer
 * @param maxDelay longest delay
 */
public record Retry(int maxAttempts, Duration firstDelay, double factor, Duration maxDelay) {
  /** Returns a policy with the usual delays: 1 s, then twice as long each, up to a minute. */
  public static Retry attempts(int maxAttempts) {
    return new Retry(maxAttempts, Duration.ofSeconds(1), 2, Duration.ofMinutes(1));
  }

  RetryPolicy toProto() {
    return RetryPolicy.newBuilder()
        .setMaxAttempts(maxAttempts)
        .setFirstDelay(Protos.duration(firstDelay))
        .setFactor(factor)
        .setMaxDelay(Protos.duration(maxDelay))
        .build();
  }
}
