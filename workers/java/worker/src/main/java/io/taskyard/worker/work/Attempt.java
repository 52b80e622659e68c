package io.taskyard.worker.work;

import io.taskyard.v1.TaskAssignment;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Future;
import java.util.function.Consumer;

/**
 * One attempt while this worker has it. Changed on the loop only; what is final is for any thread.
 */
public final class Attempt {
  private final TaskAssignment assignment;
  private final List<Consumer<Stop>> listeners = new ArrayList<>(); // guarded by itself
  private volatile Stop stop; // written under the lock of `listeners`
  private volatile String newestCheckpoint;

  // Of the loop.
  Lane lane;
  Reports reports;
  Future<?> timer; // of its run timeout, then of its grace
  long stream; // number of the one that brought it last
  boolean started; // its lane was told to begin
  boolean entered;
  boolean ended;

  Attempt(TaskAssignment assignment, long stream) {
    this.assignment = assignment;
    this.stream = stream;
    this.newestCheckpoint = assignment.hasCheckpoint() ? assignment.getCheckpoint() : null;
  }

  /** What was assigned. */
  public TaskAssignment assignment() {
    return assignment;
  }

  /** The instance's id. */
  public String taskId() {
    return assignment.getTaskId();
  }

  /** The attempt's token. */
  public String token() {
    return assignment.getAttemptToken();
  }

  /** The newest checkpoint, of this attempt or else of an earlier one. */
  public Optional<String> checkpoint() {
    return Optional.ofNullable(newestCheckpoint);
  }

  /** The order to stop; empty: there is none. */
  public Optional<Stop> stop() {
    return Optional.ofNullable(stop);
  }

  /** Has somebody told of the order to stop; at once when there is one. */
  public void onStop(Consumer<Stop> listener) {
    synchronized (listeners) {
      if (stop == null) {
        listeners.add(listener);
        return;
      }
    }
    listener.accept(stop);
  }

  /**
   * Gives the order to stop. A second one changes nothing, but that FENCED takes the result away.
   */
  boolean order(Stop order) {
    List<Consumer<Stop>> told;
    synchronized (listeners) {
      if (stop != null) {
        stop = order.cause() == Stop.Cause.FENCED ? order : stop;
        return false;
      }
      stop = order;
      told = List.copyOf(listeners);
    }
    told.forEach(listener -> listener.accept(order));
    return true;
  }

  Reports reports() {
    if (reports == null) {
      reports = new Reports();
    }
    return reports;
  }

  void store(String state) {
    newestCheckpoint = state;
  }

  void disarm() {
    if (timer != null) {
      timer.cancel(false);
      timer = null;
    }
  }
}
