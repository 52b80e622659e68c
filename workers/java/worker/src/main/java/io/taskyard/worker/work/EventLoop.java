package io.taskyard.worker.work;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * One thread on which everything happens that changes what the worker knows, one piece after the
 * other: no piece waits. A thread of the system, so that handlers on virtual ones cannot hold it.
 */
public final class EventLoop implements Executor, AutoCloseable {
  private final LinkedBlockingQueue<Runnable> pieces = new LinkedBlockingQueue<>();
  private final ScheduledThreadPoolExecutor clock;
  private final Thread thread;
  private final Consumer<Throwable> broken;
  private volatile Runnable afterwards = () -> {};
  private volatile boolean closed;

  /**
   * Starts the thread.
   *
   * @param broken told of a fault; the worker cannot go on after it
   */
  public EventLoop(Consumer<Throwable> broken) {
    this.broken = broken;
    this.clock = new ScheduledThreadPoolExecutor(1, daemon("taskyard-clock"));
    this.clock.setRemoveOnCancelPolicy(true);
    this.thread = daemon("taskyard-loop").newThread(this::run);
    this.thread.start();
  }

  private static java.util.concurrent.ThreadFactory daemon(String name) {
    return Thread.ofPlatform().name(name).daemon().factory();
  }

  /** Has something done after each batch of pieces: what gathered is sent then. */
  public void afterwards(Runnable action) {
    afterwards = action;
  }

  @Override
  public void execute(Runnable piece) {
    pieces.add(piece);
  }

  /** Has something done after a while, on the loop. */
  public Future<?> after(Duration wait, Runnable piece) {
    return clock.schedule(() -> execute(piece), wait.toNanos(), TimeUnit.NANOSECONDS);
  }

  /** Asks something of the loop from another thread, and waits for the answer. */
  public <T> T ask(Supplier<T> question) throws InterruptedException {
    CompletableFuture<T> answer = new CompletableFuture<>();
    execute(() -> answer.complete(question.get()));
    try {
      return answer.get();
    } catch (ExecutionException error) {
      throw new IllegalStateException("an answer is always a value", error);
    }
  }

  private void run() {
    List<Runnable> batch = new ArrayList<>();
    try {
      while (!closed) {
        batch.add(pieces.take());
        pieces.drainTo(batch);
        batch.forEach(Runnable::run);
        batch.clear();
        afterwards.run();
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt(); // `close` wants the end
    } catch (RuntimeException | Error error) {
      broken.accept(error);
    }
  }

  @Override
  public void close() {
    closed = true;
    clock.shutdownNow();
    thread.interrupt();
  }
}
