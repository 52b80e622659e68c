package io.taskyard.worker.work;

import io.taskyard.v1.ResultAck;
import io.taskyard.v1.TaskResult;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Set;

/** Every ended attempt whose result is not acknowledged, oldest first: here and in the spool. */
public final class KeptResults {
  private static final class Kept {
    final long number;
    final TaskResult result;
    long stream;

    Kept(long number, TaskResult result, long stream) {
      this.number = number;
      this.result = result;
      this.stream = stream;
    }
  }

  private final ResultSpool spool;
  private final LinkedHashMap<String, Kept> kept = new LinkedHashMap<>();
  private final List<TaskResult> unsaved = new ArrayList<>();
  private long last;

  public KeptResults(ResultSpool spool) {
    this.spool = spool;
    spool.replay().forEach(result -> put(result, 0));
  }

  int size() {
    return kept.size();
  }

  boolean isEmpty() {
    return kept.isEmpty();
  }

  boolean contains(String token) {
    return kept.containsKey(token);
  }

  Set<String> tokens() {
    return kept.keySet();
  }

  List<TaskResult> all() {
    return kept.values().stream().map(one -> one.result).toList();
  }

  /**
   * Keeps a new result, in memory until `save`. `stream`: number of the one that brought its task.
   */
  void keep(TaskResult result, long stream) {
    put(result, stream);
    unsaved.add(result);
  }

  private void put(TaskResult result, long stream) {
    kept.put(result.getAttemptToken(), new Kept(++last, result, stream));
  }

  /**
   * Notes which stream brought a kept result's assignment; returns whether it was another before.
   */
  boolean broughtAgain(String token, long stream) {
    Kept one = kept.get(token);
    boolean another = one.stream != stream;
    one.stream = stream;
    return another;
  }

  /** Writes what is new to the spool, and returns it. */
  List<TaskResult> save() {
    if (unsaved.isEmpty()) {
      return List.of();
    }
    List<TaskResult> saved = List.copyOf(unsaved);
    unsaved.clear();
    spool.append(saved, last);
    return saved;
  }

  /** Forgets the results that the scheduler has dealt with, in whatever way. */
  void acknowledge(Collection<ResultAck> acks) {
    acks.forEach(ack -> kept.remove(ack.getAttemptToken()));
    if (kept.isEmpty()) {
      spool.clear(false);
    } else {
      spool.trim(kept.values().iterator().next().number);
    }
  }

  void close() {
    save();
    if (kept.isEmpty()) {
      spool.clear(true);
    }
    spool.close();
  }
}
