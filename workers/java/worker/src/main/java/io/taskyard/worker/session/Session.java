package io.taskyard.worker.session;

import io.grpc.Status;
import io.taskyard.v1.AppendLogsRequest;
import io.taskyard.v1.AssignTaskRequest;
import io.taskyard.v1.AssignTaskResponse;
import io.taskyard.v1.DeregisterRequest;
import io.taskyard.v1.HeartbeatRequest;
import io.taskyard.v1.HeartbeatResponse;
import io.taskyard.v1.LogChunk;
import io.taskyard.v1.RegisterResponse;
import io.taskyard.worker.link.Backoff;
import io.taskyard.worker.link.LinkException;
import io.taskyard.worker.link.SchedulerLink;
import io.taskyard.worker.link.WorkerStream;
import io.taskyard.worker.logs.LogBook;
import io.taskyard.worker.logs.WorkerLog;
import io.taskyard.worker.work.EventLoop;
import io.taskyard.worker.work.Signal;
import io.taskyard.worker.work.Work;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.random.RandomGenerator;

/**
 * The conversation with the scheduler, over as many streams and registrations as it takes. Each of
 * its three endless methods has a thread of its own.
 */
final class Session implements WorkerStream.Listener {
  /** After so many calls in a row without an answer the connection is given up. */
  private static final int MAX_UNANSWERED = 2;

  /** A stream that lived this long was a good one: the next try comes soon. */
  private static final Duration STEADY = Duration.ofSeconds(5);

  private static final Duration HEARTBEAT = Duration.ofSeconds(10); // until the scheduler says

  /** What belongs to it. `drain` is called when the scheduler asks the worker to drain. */
  record Parts(
      SchedulerLink link,
      Identity identity,
      Work work,
      EventLoop loop,
      LogBook logs,
      RandomGenerator random,
      WorkerLog log,
      Runnable drain) {}

  private final Parts parts;
  private final WorkerLog log;
  private final Signal beatNow;
  private final Signal registered = new Signal(false);
  private final AtomicInteger unanswered = new AtomicInteger();
  private volatile long epoch;
  private volatile Duration interval = HEARTBEAT;
  private volatile boolean leaving;
  private volatile WorkerStream stream; // written on the loop
  private volatile long streamSince;
  private volatile long awaySince = System.nanoTime();
  private volatile int streamsOpened;

  Session(Parts parts, Signal beatNow) {
    this.parts = parts;
    this.log = parts.log;
    this.beatNow = beatNow;
    parts.loop.afterwards(this::flush);
  }

  boolean connected() {
    return stream != null;
  }

  int streamsOpened() {
    return streamsOpened;
  }

  /** How long there has been no stream. */
  Duration away() {
    return connected() ? Duration.ZERO : Duration.ofNanos(System.nanoTime() - awaySince);
  }

  // The stream.

  /** Registers and holds a stream open, again and again. */
  void converse() throws WorkerStopped, InterruptedException {
    Backoff backoff = new Backoff(parts.random);
    while (!leaving) {
      long began = System.nanoTime();
      try {
        if (!registered.isOn()) {
          register();
        }
        Optional<LinkException> end = holdStream();
        if (end.isPresent()) {
          lost(end.get());
        }
      } catch (LinkException error) {
        lost(error);
      }
      if (System.nanoTime() - began >= STEADY.toNanos()) {
        backoff.reset();
      }
      Thread.sleep(backoff.next());
    }
  }

  private void register() throws LinkException, WorkerStopped, InterruptedException {
    RegisterResponse response;
    try {
      response = parts.link.register(parts.identity.request());
    } catch (LinkException error) {
      refused(error);
      throw error;
    }
    if (!response.getAccepted()) {
      String reason = response.getMessage();
      throw new WorkerStopped(
          ExitCode.NOT_ACCEPTED, reason.isEmpty() ? "the scheduler gave no reason" : reason);
    }
    unanswered.set(0);
    epoch = response.getSessionEpoch();
    beatEvery(response.getHeartbeatIntervalSec());
    registered.set(true);
    log.info("registered", "worker_id", parts.identity.workerId(), "session_epoch", epoch);
  }

  private void refused(LinkException error) throws WorkerStopped {
    boolean closed =
        error.code() == Status.Code.UNAUTHENTICATED
            || error.code() == Status.Code.PERMISSION_DENIED;
    if (closed && epoch == 0) {
      throw new WorkerStopped(
          ExitCode.UNAUTHENTICATED, error.getMessage() + "; the worker's token is TASKYARD_TOKEN");
    }
    if (error.code() == Status.Code.INVALID_ARGUMENT) {
      throw new WorkerStopped(ExitCode.NOT_ACCEPTED, error.getMessage());
    }
  }

  private void beatEvery(int seconds) {
    if (seconds > 0) {
      interval = Duration.ofSeconds(seconds);
    }
  }

  private Optional<LinkException> holdStream() throws InterruptedException {
    WorkerStream opened = parts.link.openStream(this);
    try {
      parts.loop.execute(() -> begin(opened));
      return opened.awaitEnd();
    } finally {
      parts.loop.execute(() -> gone(opened));
      opened.close();
    }
  }

  @SuppressWarnings("NonAtomicVolatileUpdate") // written on the loop alone
  private void begin(WorkerStream opened) {
    opened.send(parts.work.hello(epoch));
    parts.work.repeat();
    stream = opened;
    streamSince = System.nanoTime();
    streamsOpened++;
  }

  private void gone(WorkerStream ended) {
    if (stream == ended) {
      stream = null;
      awaySince = System.nanoTime();
    }
  }

  /** Closes the stream, so that another is opened. */
  void reopen() {
    WorkerStream open = stream;
    if (open != null) {
      open.close();
    }
  }

  private void lost(LinkException error) throws WorkerStopped {
    if (error.superseded()) {
      throw new WorkerStopped(
          ExitCode.SUPERSEDED,
          ("another worker registered as '%s' later than this one, which therefore stops; give each worker an id"
                  + " or a data directory of its own (TASKYARD_WORKER_ID, TASKYARD_DATA)")
              .formatted(parts.identity.workerId()));
    }
    if (error.code() == Status.Code.NOT_FOUND) {
      registered.set(false);
      log.info("the scheduler does not know this worker; registering again");
    } else if (!leaving) {
      log.warning(
          "the connection was lost; trying again",
          "code",
          error.code(),
          "error",
          error.getMessage());
    }
    if (error.unanswered()) {
      gotNoAnswer();
    }
  }

  /** Gives the connection up once it has swallowed several calls: a half-open one never tells. */
  private void gotNoAnswer() {
    if (unanswered.incrementAndGet() < MAX_UNANSWERED || leaving) {
      return;
    }
    unanswered.set(0);
    log.warning(
        "the connection carries nothing any more; opening another", "calls", MAX_UNANSWERED);
    parts.link.renew();
    reopen();
  }

  @Override
  public void received(WorkerStream from, AssignTaskResponse frame) {
    parts.loop.execute(() -> {
      if (from == stream) {
        take(frame);
      }
    });
  }

  private void take(AssignTaskResponse frame) {
    parts.work.receive(frame);
    if (frame.getDrain()) {
      parts.drain.run();
    }
    if (frame.hasConfig()) {
      beatEvery(frame.getConfig().getHeartbeatIntervalSec());
    }
  }

  @Override
  public void ready(WorkerStream on) {
    parts.loop.execute(() -> {}); // what gathered is sent after each piece
  }

  /** Puts new results on disk, and sends what the transport takes. On the loop. */
  private void flush() {
    parts.work.save();
    WorkerStream open = stream;
    while (open != null && open.isReady()) {
      Optional<AssignTaskRequest> frame = parts.work.nextFrame();
      if (frame.isEmpty()) {
        return;
      }
      open.send(frame.get());
    }
  }

  // Heartbeats.

  /** Sends heartbeats: the first of a session after half the interval. */
  void keepAlive() throws WorkerStopped, InterruptedException {
    long beaten = 0;
    while (true) {
      registered.await();
      beatNow.take(beaten == epoch ? interval : interval.dividedBy(2));
      beaten = epoch;
      beat();
    }
  }

  private void beat() throws WorkerStopped, InterruptedException {
    long since = System.nanoTime();
    List<String> tokens = parts.loop.ask(parts.work::heldTokens);
    HeartbeatRequest request = heartbeat(tokens);
    try {
      HeartbeatResponse response = parts.link.heartbeat(request);
      unanswered.set(0);
      parts.loop.execute(() -> parts.work.renewed(tokens, since, response.getLostTokensList()));
      if (!response.getOk() && connected() && streamSince < since) {
        log.warning("the scheduler does not see this worker's stream; opening another");
        reopen();
      }
    } catch (LinkException error) {
      if (request.getSessionEpoch() != epoch) {
        return; // what is said of an earlier session of this process concerns none
      }
      lost(error);
      if (error.code() == Status.Code.NOT_FOUND) {
        reopen();
      }
    }
  }

  private HeartbeatRequest heartbeat(List<String> tokens) {
    Load load = Load.now();
    return HeartbeatRequest.newBuilder()
        .setWorkerId(parts.identity.workerId())
        .setSessionEpoch(epoch)
        .setActiveTasks(parts.work.active())
        .setCpuUsage(load.average())
        .setMemoryMb(load.memoryMb())
        .setTimestamp(System.currentTimeMillis())
        .addAllAttemptTokens(tokens)
        .build();
  }

  // Logs.

  /** Sends log lines as they come; while one call is under way, the next gathers. */
  void sendLogs() throws InterruptedException {
    Backoff backoff = new Backoff(parts.random);
    while (true) {
      parts.logs.waiting().await();
      registered.await();
      try {
        sendChunks(parts.logs.chunks());
        backoff.reset();
      } catch (LinkException error) {
        log.info(
            "log lines wait: they could not be sent",
            "code",
            error.code(),
            "error",
            error.getMessage());
        Thread.sleep(backoff.next());
      }
    }
  }

  private void sendChunks(List<LogChunk> chunks) throws LinkException, InterruptedException {
    if (!chunks.isEmpty()) {
      AppendLogsRequest request =
          AppendLogsRequest.newBuilder()
              .setWorkerId(parts.identity.workerId())
              .setSessionEpoch(epoch)
              .addAllChunks(chunks)
              .build();
      parts.link.appendLogs(request).getAcksList().forEach(parts.logs::acknowledge);
    }
  }

  // The end.

  /** Ends the session, if there is one. */
  void deregister() throws InterruptedException {
    if (!registered.isOn()) {
      return;
    }
    leaving = true;
    try {
      parts.link.deregister(
          DeregisterRequest.newBuilder()
              .setWorkerId(parts.identity.workerId())
              .setSessionEpoch(epoch)
              .build());
    } catch (LinkException error) {
      log.warning(
          "could not deregister; the scheduler will notice",
          "code",
          error.code(),
          "error",
          error.getMessage());
    }
  }
}
