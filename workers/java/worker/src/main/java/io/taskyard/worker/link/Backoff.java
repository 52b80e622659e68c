package io.taskyard.worker.link;

import java.time.Duration;
import java.util.random.RandomGenerator;

/**
 * Waits between tries: from 100 ms up to 5 s, each by chance between half of that and all of it.
 */
public final class Backoff {
  private static final Duration FIRST = Duration.ofMillis(100);
  private static final Duration LONGEST = Duration.ofSeconds(5);

  private final RandomGenerator random;
  private Duration next = FIRST;

  public Backoff(RandomGenerator random) {
    this.random = random;
  }

  /** How long to wait before the next try. */
  public Duration next() {
    Duration wait = next;
    Duration doubled = wait.multipliedBy(2);
    next = doubled.compareTo(LONGEST) < 0 ? doubled : LONGEST;
    return Duration.ofNanos((long) (wait.toNanos() * random.nextDouble(0.5, 1.0)));
  }

  /** Begins anew: the last try was a success. */
  public void reset() {
    next = FIRST;
  }
}
