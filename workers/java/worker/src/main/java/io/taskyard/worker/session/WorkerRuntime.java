package io.taskyard.worker.session;

import io.taskyard.v1.LogChunk;
import io.taskyard.worker.TaskRegistry;
import io.taskyard.worker.disk.FileKeys;
import io.taskyard.worker.disk.FileSpool;
import io.taskyard.worker.disk.UnsentLogs;
import io.taskyard.worker.http.Figures;
import io.taskyard.worker.link.SchedulerLink;
import io.taskyard.worker.logs.LogBook;
import io.taskyard.worker.logs.WorkerLog;
import io.taskyard.worker.settings.WorkerSettings;
import io.taskyard.worker.work.EventLoop;
import io.taskyard.worker.work.KeptResults;
import io.taskyard.worker.work.Lanes;
import io.taskyard.worker.work.Observer;
import io.taskyard.worker.work.Signal;
import io.taskyard.worker.work.Work;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.random.RandomGenerator;

/** One worker: puts the parts together, runs them, and stops in good order. */
@SuppressWarnings("try") // closing waits for the loop, and whoever interrupts that means it
public final class WorkerRuntime implements Figures, AutoCloseable {
  /** How long a draining worker waits for its last results to be acknowledged. */
  private static final Duration ACKNOWLEDGE = Duration.ofSeconds(10);

  private static final Duration FLUSH_LOGS = Duration.ofSeconds(5);
  private static final Duration INTERRUPTED = Duration.ofSeconds(15);
  private static final Duration LOOK = Duration.ofMillis(50);
  private static final int TASKS_SHOWN = 5;

  /** What it is made of. */
  public record Parts(
      WorkerSettings settings,
      Identity identity,
      TaskRegistry registry,
      SchedulerLink link,
      Path home,
      Lanes lanes,
      Observer observer,
      WorkerLog log) {}

  /** One of its endless threads. */
  private interface Endless {
    void run() throws WorkerStopped, InterruptedException;
  }

  private final Parts parts;
  private final WorkerLog log;
  private final LogBook logs = new LogBook();
  private final UnsentLogs unsent;
  private final EventLoop loop;
  private final Work work;
  private final Session session;
  private final Signal draining = new Signal(false);
  private final CompletableFuture<ExitCode> ended = new CompletableFuture<>();
  private final List<Thread> threads = new ArrayList<>();

  /** Reads what an earlier life left. Throws when the home cannot be used. */
  public WorkerRuntime(Parts parts) throws IOException {
    this.parts = parts;
    this.log = parts.log;
    this.unsent = new UnsentLogs(parts.home.resolve("unsent-logs"), log);
    restoreLogs();
    KeptResults results = new KeptResults(new FileSpool(parts.home.resolve("spool"), log));
    FileKeys keys = new FileKeys(parts.home.resolve("keys"), log);
    this.loop = new EventLoop(this::broken);
    Signal beatNow = new Signal(false);
    this.work =
        new Work(
            new Work.Parts(loop, parts.registry, results, keys, logs, parts.lanes, parts.observer),
            parts.identity.workerId(),
            parts.settings.concurrency(),
            () -> beatNow.set(true));
    this.session =
        new Session(
            new Session.Parts(
                parts.link,
                parts.identity,
                work,
                loop,
                logs,
                RandomGenerator.getDefault(),
                log,
                this::drain),
            beatNow);
    if (work.unacknowledged() > 0) {
      log.info("results of an earlier life will be reported", "count", work.unacknowledged());
    }
  }

  /** Takes nothing new, lets what runs end within the grace, reports, deregisters. */
  public void drain() {
    draining.set(true);
  }

  @Override
  public String notReady() {
    if (draining.isOn()) {
      return "draining";
    }
    return session.connected() ? "" : "no stream to a scheduler";
  }

  @Override
  public int activeAttempts() {
    return work.active();
  }

  @Override
  public int unacknowledgedResults() {
    return work.unacknowledged();
  }

  @Override
  public boolean connected() {
    return session.connected();
  }

  @Override
  public int streamsOpened() {
    return session.streamsOpened();
  }

  @Override
  public long droppedLogLines() {
    return logs.droppedLines();
  }

  /** Works until drained. Throws when it must end before. */
  public ExitCode run() throws WorkerStopped, InterruptedException {
    start("stream", session::converse);
    start("heartbeats", session::keepAlive);
    start("logs", session::sendLogs);
    start("drain", this::drained);
    try {
      return ended.get();
    } catch (ExecutionException error) {
      if (error.getCause() instanceof WorkerStopped stopped) {
        throw stopped;
      }
      throw new IllegalStateException("a part of the worker failed", error.getCause());
    }
  }

  private void start(String name, Endless part) {
    Thread thread =
        Thread.ofPlatform().name("taskyard-" + name).daemon().unstarted(() -> guarded(part));
    threads.add(thread);
    thread.start();
  }

  private void guarded(Endless part) {
    try {
      part.run();
    } catch (WorkerStopped | RuntimeException | Error error) {
      broken(error);
    } catch (InterruptedException error) { // `close` wants the end
      Thread.currentThread().interrupt();
    }
  }

  private void broken(Throwable error) {
    ended.completeExceptionally(error);
  }

  private void drained() throws InterruptedException {
    draining.await();
    List<String> tasks = loop.ask(this::beginDrain);
    Duration grace = parts.settings.drainGrace();
    log.info("draining", "active", tasks.size(), "grace_s", grace.toMillis() / 1000.0);
    if (!work.idle().await(grace)) {
      log.warning("interrupting what still runs", "tasks", shownTasks());
      loop.execute(work::interrupt);
      if (!work.idle().await(INTERRUPTED)) {
        log.warning("left running", "tasks", shownTasks());
      }
    }
    if (!withinReach(ACKNOWLEDGE, work.allAcknowledged())) {
      log.warning("results stay in the spool for the next start", "count", work.unacknowledged());
    }
    withinReach(FLUSH_LOGS, logs.empty()); // what is not sent is kept by `close`
    session.deregister();
    log.info("drained");
    ended.complete(ExitCode.DRAINED);
  }

  private List<String> beginDrain() {
    work.drain();
    return work.runningTasks();
  }

  private List<String> shownTasks() throws InterruptedException {
    return loop.ask(work::runningTasks).stream().limit(TASKS_SHOWN).toList();
  }

  /** Waits until the scheduler has taken something; not for one that stays out of reach. */
  private boolean withinReach(Duration limit, Signal taken) throws InterruptedException {
    long end = System.nanoTime() + limit.toNanos();
    while (!taken.await(LOOK)) {
      boolean away = session.away().compareTo(parts.settings.reachGrace()) >= 0;
      if (away || System.nanoTime() >= end) {
        return false;
      }
    }
    return true;
  }

  private void restoreLogs() throws IOException {
    List<LogChunk> chunks = unsent.replay();
    if (!chunks.isEmpty()) {
      int count = chunks.stream().mapToInt(LogChunk::getLinesCount).sum();
      log.info("log lines of an earlier life will be sent", "count", count);
      logs.restore(chunks, this::forgetLogs);
    }
  }

  private void forgetLogs() {
    try {
      unsent.clear();
    } catch (IOException error) { // sent again at the next start, which the scheduler notices
      log.warning("sent log lines of an earlier life stay on disk", "error", error);
    }
  }

  private void keepLogs() {
    List<LogChunk> chunks = logs.unsent();
    if (chunks.isEmpty()) {
      return;
    }
    int count = chunks.stream().mapToInt(LogChunk::getLinesCount).sum();
    try {
      unsent.keep(chunks);
      log.warning("log lines stay on disk for the next start", "count", count);
    } catch (IOException error) {
      log.error(
          "the last log lines could neither be sent nor kept and are lost: make room on the disk",
          "count",
          count,
          "error",
          error);
    }
  }

  @Override
  public void close() throws InterruptedException {
    session.reopen();
    threads.forEach(Thread::interrupt);
    if (!ended.isCompletedExceptionally()) { // else the loop may be what failed
      loop.ask(() -> {
        work.close();
        return true;
      });
    }
    loop.close();
    parts.link.close();
    keepLogs();
  }
}
