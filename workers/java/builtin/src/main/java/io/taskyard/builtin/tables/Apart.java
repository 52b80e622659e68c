package io.taskyard.builtin.tables;

import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;

/**
 * Runs native code on a thread of its own: on a virtual thread it would hold the carrier, and so
 * keep other tasks waiting.
 */
final class Apart {
  private static final Duration AGAIN = Duration.ofMillis(100);

  private Apart() {}

  /**
   * Runs something and returns what it gives, when it has ended, also when that was told to.
   *
   * @param stop has it end; called again until it did
   * @throws InterruptedException this thread was interrupted, and the work has ended since
   */
  static <T> T call(Callable<T> work, Runnable stop) throws Exception {
    FutureTask<T> task = new FutureTask<>(work);
    Thread thread = Thread.ofPlatform().daemon().name("taskyard-tables").start(task);
    try {
      return task.get();
    } catch (ExecutionException error) {
      throw error.getCause() instanceof Exception cause ? cause : error;
    } catch (InterruptedException interrupt) {
      end(thread, stop);
      throw interrupt;
    }
  }

  private static void end(Thread thread, Runnable stop) {
    while (thread.isAlive()) {
      stop.run();
      try {
        thread.join(AGAIN);
      } catch (InterruptedException again) {
        // it is being stopped already, and the caller hears of the first interrupt
      }
    }
  }
}
