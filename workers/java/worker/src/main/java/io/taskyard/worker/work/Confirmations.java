package io.taskyard.worker.work;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;

/**
 * Exclusive attempts that wait for a heartbeat's answer: nobody knows how long an assignment was on
 * the way, and whether it still is this worker's.
 */
final class Confirmations {
  private final Map<String, Attempt> waiting = new LinkedHashMap<>();
  private final Consumer<Attempt> start;
  private final Runnable beatNow;

  Confirmations(Consumer<Attempt> start, Runnable beatNow) {
    this.start = start;
    this.beatNow = beatNow;
  }

  /** Keeps an attempt from starting until a heartbeat that lists it was answered. */
  void hold(Attempt attempt) {
    waiting.put(attempt.token(), attempt);
    beatNow.run();
  }

  /** Lets go of an attempt that is to stop. */
  void release(Attempt attempt) {
    waiting.remove(attempt.token());
  }

  /** Starts what a heartbeat listed that was answered, and whose losses were released before. */
  void answered(Collection<String> tokens) {
    for (String token : tokens) {
      Attempt attempt = waiting.remove(token);
      if (attempt != null) {
        start.accept(attempt);
      }
    }
  }
}
