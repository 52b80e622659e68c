package io.taskyard.worker.link;

import java.time.Duration;
import java.util.random.RandomGenerator;

/** Repeats a unary call that may safely be repeated, within one overall deadline. */
final class Retries {
  private static final long[] WAITS_MS = {100, 200, 400};
  private static final double JITTER = 0.2;

  private final RandomGenerator random;

  Retries(RandomGenerator random) {
    this.random = random;
  }

  /** One try. */
  interface Try<T> {
    T within(Duration limit) throws LinkException;
  }

  /** Makes a call, and up to three more. Throws the last one's error. */
  <T> T call(Duration limit, Try<T> once) throws LinkException, InterruptedException {
    long end = System.nanoTime() + limit.toNanos();
    for (int number = 0; ; number++) {
      try {
        return once.within(Duration.ofNanos(Math.max(1_000_000, end - System.nanoTime())));
      } catch (LinkException error) {
        long wait = number < WAITS_MS.length ? waitNanos(number, error) : Long.MAX_VALUE / 2;
        if (!error.repeatable() || wait >= end - System.nanoTime()) {
          throw error;
        }
        Thread.sleep(Duration.ofNanos(wait));
      }
    }
  }

  private long waitNanos(int number, LinkException error) {
    double jittered = WAITS_MS[number] * random.nextDouble(1 - JITTER, 1 + JITTER);
    return Math.max((long) (jittered * 1e6), error.retryAfter().toNanos());
  }
}
