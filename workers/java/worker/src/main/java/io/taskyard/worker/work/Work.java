package io.taskyard.worker.work;

import io.taskyard.v1.AssignTaskRequest;
import io.taskyard.v1.AssignTaskResponse;
import io.taskyard.v1.CancelAttempt;
import io.taskyard.v1.CheckpointAck;
import io.taskyard.v1.HeldAttempt;
import io.taskyard.v1.Hello;
import io.taskyard.v1.TaskAssignment;
import io.taskyard.v1.TaskResult;
import io.taskyard.v1.TaskStatus;
import io.taskyard.worker.TaskRegistry;
import io.taskyard.worker.work.Stop.Cause;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * What this worker has to do and to say. All of it on the loop, but for what {@link AttemptHost}
 * says.
 */
public final class Work implements AttemptHost {
  /**
   * How long a killed process may take to be gone before its attempt counts as one that cannot be
   * stopped.
   */
  private static final Duration KILL_MARGIN = Duration.ofSeconds(5);

  /**
   * What belongs to it.
   *
   * @param loop the thread on which everything happens
   * @param registry the handlers
   * @param results ended attempts that are not acknowledged
   * @param keys first successes by key
   * @param logs log lines
   * @param lanes where attempts run
   * @param observer counts ends
   */
  public record Parts(
      EventLoop loop,
      TaskRegistry registry,
      KeptResults results,
      KeyMemory keys,
      AttemptLogs logs,
      Lanes lanes,
      Observer observer) {}

  private final Parts parts;
  private final String workerId;
  private final Credits credits;
  private final Outbox outbox = new Outbox();
  private final Map<String, Attempt> running = new LinkedHashMap<>();
  private final Confirmations confirmations;
  private final Signal idle = new Signal(true);
  private final Signal allAcknowledged;
  private long stream;
  private volatile boolean draining;
  private boolean drainingSaid;

  /**
   * Has nothing to do yet but the results of an earlier life.
   *
   * @param workerId as registered
   * @param slots how many attempts run at once
   * @param beatNow asks for a heartbeat at once
   */
  public Work(Parts parts, String workerId, int slots, Runnable beatNow) {
    this.parts = parts;
    this.workerId = workerId;
    this.credits = new Credits(slots);
    this.confirmations = new Confirmations(this::start, beatNow);
    this.allAcknowledged = new Signal(parts.results.isEmpty());
  }

  /** On while nothing runs. */
  public Signal idle() {
    return idle;
  }

  /** On while every result is acknowledged. */
  public Signal allAcknowledged() {
    return allAcknowledged;
  }

  /** How many attempts run. */
  public int active() {
    return running.size();
  }

  /** How many results wait for their acknowledgement. */
  public int unacknowledged() {
    return parts.results.size();
  }

  /** The ids of the tasks that run, oldest first. */
  public List<String> runningTasks() {
    return running.values().stream().map(Attempt::taskId).toList();
  }

  /** The tokens of every attempt that runs or whose result is not acknowledged. */
  public List<String> heldTokens() {
    List<String> tokens = new ArrayList<>(running.keySet());
    tokens.addAll(parts.results.tokens());
    return tokens;
  }

  /** Whether it takes no new attempts. */
  public boolean draining() {
    return draining;
  }

  /** Takes no new attempts from now on. */
  public void drain() {
    draining = true;
  }

  /** Stops whatever runs, to be requeued. */
  public void interrupt() {
    List.copyOf(running.values())
        .forEach(attempt -> stop(attempt, Cause.DRAINED.order(Stop.GRACE)));
  }

  /** Writes what is new to disk and closes the files. */
  public void close() {
    parts.keys.save();
    parts.results.close();
  }

  // Frames in.

  /**
   * Takes a frame from the scheduler. Cancels go before assignments, which may be in the same one.
   */
  public void receive(AssignTaskResponse frame) {
    if (frame.getResultAcksCount() > 0) {
      parts.results.acknowledge(frame.getResultAcksList());
      allAcknowledged.set(parts.results.isEmpty());
    }
    frame.getCancelsList().forEach(this::cancel);
    frame.getCheckpointAcksList().forEach(this::checkpointCommitted);
    frame.getAssignmentsList().forEach(this::take);
  }

  private void take(TaskAssignment assignment) {
    String token = assignment.getAttemptToken();
    if (running.containsKey(token) || parts.results.contains(token)) {
      seenAgain(token);
      return;
    }
    credits.receive();
    Optional<TaskRegistry.Entry> entry = parts.registry.find(assignment.getTaskType());
    if (draining) {
      handBack(assignment, Cause.DRAINED.order(Stop.GRACE).ending(Ending.STOPPED));
    } else if (entry.isEmpty()) {
      handBack(assignment, Ending.unknownType(assignment.getTaskType()));
    } else {
      takeKnown(assignment, entry.get());
    }
  }

  private void takeKnown(TaskAssignment assignment, TaskRegistry.Entry entry) {
    Optional<String> first =
        assignment.getIdempotencyKey().isEmpty()
            ? Optional.empty()
            : parts.keys.find(assignment.getTenant(), assignment.getIdempotencyKey());
    if (first.isPresent()) {
      handBack(assignment, Ending.success(first.get(), Map.of()));
      return;
    }
    Attempt attempt = new Attempt(assignment, stream);
    attempt.lane = parts.lanes.of(attempt, entry, this);
    boolean mustBeKillable = assignment.getExclusive() || entry.options().isolated();
    if (mustBeKillable && !attempt.lane.killable()) {
      handBack(assignment, Ending.cannotBeKilled(assignment.getTaskType()));
      return;
    }
    running.put(attempt.token(), attempt);
    idle.set(false);
    if (assignment.getExclusive()) {
      confirmations.hold(attempt);
    } else {
      start(attempt);
    }
  }

  private void start(Attempt attempt) {
    attempt.started = true;
    attempt.lane.start();
  }

  /** Counts an assignment that is held already when it is the first of its kind on this stream. */
  private void seenAgain(String token) {
    Attempt attempt = running.get(token);
    if (attempt == null) {
      if (parts.results.broughtAgain(token, stream)) {
        credits.receive();
      }
    } else if (attempt.stream != stream) {
      attempt.stream = stream;
      credits.receive();
    }
  }

  private void handBack(TaskAssignment assignment, Ending ending) {
    keep(ending.result(assignment.getTaskId(), assignment.getAttemptToken(), 0), stream);
  }

  private void keep(TaskResult result, long broughtBy) {
    parts.results.keep(result, broughtBy);
    allAcknowledged.set(false);
  }

  private void cancel(CancelAttempt order) {
    Cause cause = Cause.of(order);
    Attempt attempt = running.get(order.getAttemptToken());
    if (attempt != null) {
      stop(attempt, cause.order(Duration.ofMillis(order.getGraceMs())));
    } else if (cause != Cause.FENCED && !parts.results.contains(order.getAttemptToken())) {
      // Nothing of the kind runs here, which is what the scheduler wants to hear.
      Ending ending = Ending.unsuccessful(cause.status(), "", "the attempt does not run here");
      keep(ending.result(order.getTaskId(), order.getAttemptToken(), 0), 0);
    }
  }

  private void checkpointCommitted(CheckpointAck ack) {
    Attempt attempt = running.get(ack.getAttemptToken());
    if (attempt != null) {
      attempt.reports().acknowledge(ack.getCheckpointNumber());
    }
  }

  /**
   * A heartbeat with these tokens was answered: their leases run anew since it was sent. Those that
   * the answer calls lost are no attempts of this worker any more.
   */
  public void renewed(Collection<String> tokens, long sentNanos, Collection<String> lost) {
    for (String token : lost) {
      Attempt attempt = running.get(token);
      if (attempt != null) {
        stop(attempt, Cause.FENCED.order(Stop.GRACE));
      }
    }
    for (String token : tokens) {
      Attempt attempt = running.get(token);
      if (attempt != null && attempt.assignment().getExclusive() && !lost.contains(token)) {
        Duration gone = Duration.ofNanos(System.nanoTime() - sentNanos);
        attempt.lane.renew(Duration.ofMillis(attempt.assignment().getLeaseMs()).minus(gone));
      }
    }
    confirmations.answered(tokens);
  }

  // Stopping.

  private void stop(Attempt attempt, Stop order) {
    if (!attempt.order(order)) {
      return;
    }
    attempt.disarm();
    if (attempt.reports != null) {
      attempt.reports.release();
    }
    if (!attempt.started) {
      confirmations.release(attempt);
      finish(attempt, Ending.STOPPED, Duration.ZERO);
      return;
    }
    attempt.lane.stop(order);
    Duration limit = attempt.lane.killable() ? order.grace().plus(KILL_MARGIN) : order.grace();
    attempt.timer = parts.loop.after(limit, () -> cannotBeStopped(attempt));
  }

  private void cannotBeStopped(Attempt attempt) {
    if (!attempt.ended) {
      attempt.reports().cannotBeStopped();
      outbox.reportsChanged(attempt);
    }
  }

  private void ranOut(Attempt attempt) {
    if (!attempt.ended) {
      stop(attempt, Stop.ranOut(attempt.assignment().getTimeoutMs()));
    }
  }

  // What lanes and contexts tell.

  @Override
  public void entered(Attempt attempt) {
    parts.loop.execute(() -> {
      if (!attempt.ended && !attempt.entered) {
        attempt.entered = true;
        outbox.started(attempt);
        watchTimeout(attempt);
      }
    });
  }

  private void watchTimeout(Attempt attempt) {
    long limit = attempt.assignment().getTimeoutMs();
    if (limit > 0 && attempt.stop().isEmpty()) {
      attempt.timer = parts.loop.after(Duration.ofMillis(limit), () -> ranOut(attempt));
    }
  }

  @Override
  public void ended(Attempt attempt, Ending ending, Duration ran) {
    parts.loop.execute(() -> {
      if (!attempt.ended) {
        finish(attempt, ending, ran);
      }
    });
  }

  private void finish(Attempt attempt, Ending own, Duration ran) {
    attempt.ended = true;
    attempt.disarm();
    running.remove(attempt.token());
    parts.logs.end(attempt.token());
    if (attempt.reports != null) {
      attempt.reports.release();
    }
    Ending ending = attempt.stop().map(order -> order.ending(own)).orElse(own);
    report(attempt, ending, ran);
    idle.set(running.isEmpty());
  }

  private void report(Attempt attempt, Ending ending, Duration ran) {
    if (ending.status() == TaskStatus.TASK_STATUS_UNSPECIFIED) {
      return; // fenced: no result is wanted
    }
    TaskAssignment assignment = attempt.assignment();
    if (ending.succeeded() && !assignment.getIdempotencyKey().isEmpty()) {
      parts.keys.remember(assignment.getTenant(), assignment.getIdempotencyKey(), ending.output());
    }
    parts.observer.ended(assignment.getTaskType(), ending.status(), ran);
    keep(ending.result(attempt.taskId(), attempt.token(), ran.toMillis()), attempt.stream);
  }

  @Override
  public void progress(Attempt attempt, double percent, String message) {
    parts.loop.execute(() -> {
      if (!attempt.ended) {
        attempt.reports().progress(percent, message);
        outbox.reportsChanged(attempt);
      }
    });
  }

  @Override
  public CompletableFuture<Boolean> checkpoint(Attempt attempt, String state) {
    CompletableFuture<Boolean> committed = new CompletableFuture<>();
    parts.loop.execute(() -> {
      if (attempt.ended || attempt.stop().isPresent()) {
        committed.complete(false);
        return;
      }
      attempt.store(state);
      attempt.reports().checkpoint(state, committed);
      outbox.reportsChanged(attempt);
    });
    return committed;
  }

  @Override
  public void log(Attempt attempt, String stream, String level, String line) {
    parts.logs.append(attempt.taskId(), attempt.token(), stream, level, line);
  }

  @Override
  public void stream(Attempt attempt, String text) {
    parts.logs.appendText(attempt.taskId(), attempt.token(), "output", text);
  }

  // Frames out.

  /** Begins a new stream: returns its first frame. */
  public AssignTaskRequest hello(long sessionEpoch) {
    save();
    stream++;
    drainingSaid = draining;
    Hello.Builder hello = Hello.newBuilder().setWorkerId(workerId).setSessionEpoch(sessionEpoch);
    running.values().forEach(one -> hello.addAttempts(held(one.taskId(), one.token())));
    parts
        .results
        .all()
        .forEach(one -> hello.addAttempts(held(one.getTaskId(), one.getAttemptToken())));
    return AssignTaskRequest.newBuilder()
        .setHello(hello)
        .setCredits(credits.begin(running.size()))
        .setDraining(draining)
        .build();
  }

  private static HeldAttempt held(String taskId, String token) {
    return HeldAttempt.newBuilder().setTaskId(taskId).setAttemptToken(token).build();
  }

  /**
   * Says again on the new stream, right after its hello, what an earlier one may not have carried.
   */
  public void repeat() {
    outbox.clear();
    outbox.send(parts.results.all());
    for (Attempt attempt : running.values()) {
      if (attempt.entered) {
        outbox.started(attempt);
      }
      if (attempt.reports != null) {
        outbox.reportsChanged(attempt);
      }
    }
  }

  /** Puts new results on disk; they are sent after that. */
  public void save() {
    parts.keys.save();
    outbox.send(parts.results.save());
  }

  /** What has gathered; empty when there is nothing to say. */
  public Optional<AssignTaskRequest> nextFrame() {
    AssignTaskRequest.Builder frame = AssignTaskRequest.newBuilder().setDraining(draining);
    boolean worthSending = outbox.fill(frame, parts.results::contains);
    if (draining) {
      worthSending |= !drainingSaid;
      drainingSaid = true;
    } else {
      frame.setCredits(credits.grown(running.size()));
      worthSending |= frame.getCredits() > 0;
    }
    return worthSending ? Optional.of(frame.build()) : Optional.empty();
  }
}
