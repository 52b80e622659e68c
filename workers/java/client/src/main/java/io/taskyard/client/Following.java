package io.taskyard.client;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Iterator;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.function.Supplier;

/** Reads a stream of the scheduler on over cuts, until something is seen or time is up. */
final class Following<M> {
  private static final Duration FIRST_WAIT = Duration.ofMillis(100);
  private static final Duration LONGEST_WAIT = Duration.ofSeconds(5);

  private final Duration patience;
  private final Supplier<Iterator<M>> open;
  private long failingSince;
  private Duration wait = FIRST_WAIT;

  /**
   * @param patience how long only failures are borne
   * @param open opens the stream from where it was cut
   */
  Following(Duration patience, Supplier<Iterator<M>> open) {
    this.patience = patience;
    this.open = open;
  }

  /**
   * Returns the first answer that {@code take} gives.
   *
   * @param take looks at a message; null: go on
   * @param atEnd what it means that the scheduler ended the stream; null: a cut
   */
  <T> T until(Function<M, T> take, Supplier<T> atEnd) {
    failingSince = System.nanoTime();
    while (true) {
      T found = Calls.reading(() -> once(take, atEnd));
      if (found != null) {
        return found;
      }
      pause();
    }
  }

  private <T> T once(Function<M, T> take, Supplier<T> atEnd) {
    try {
      Iterator<M> messages = open.get();
      while (messages.hasNext()) {
        T found = take.apply(messages.next());
        heard();
        if (found != null) {
          return found;
        }
      }
      return atEnd.get();
    } catch (StatusRuntimeException error) {
      if (!isCut(error) || System.nanoTime() - failingSince > patience.toNanos()) {
        throw TaskyardException.of(error);
      }
      return null;
    }
  }

  private void heard() {
    failingSince = System.nanoTime();
    wait = FIRST_WAIT;
  }

  private void pause() {
    LockSupport.parkNanos(wait.toNanos());
    if (Thread.currentThread().isInterrupted()) {
      throw TaskyardException.of(
          Status.CANCELLED.withDescription("interrupted while waiting").asRuntimeException());
    }
    wait = wait.multipliedBy(2).compareTo(LONGEST_WAIT) < 0 ? wait.multipliedBy(2) : LONGEST_WAIT;
  }

  private static boolean isCut(StatusRuntimeException error) {
    return error.getStatus().getCode() == Status.Code.UNAVAILABLE;
  }
}
