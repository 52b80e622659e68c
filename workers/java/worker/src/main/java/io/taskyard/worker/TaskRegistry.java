package io.taskyard.worker;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.SequencedMap;

/** The handlers that a worker offers, by task type. */
public final class TaskRegistry {

  /**
   * A handler and how it is run.
   *
   * @param handler does the work
   * @param options how it is run
   */
  public record Entry(TaskHandler handler, TaskOptions options) {}

  private final SequencedMap<String, Entry> entries = new LinkedHashMap<>();

  /**
   * Offers a task type.
   *
   * @throws IllegalArgumentException the type is offered already
   */
  public TaskRegistry add(String taskType, TaskHandler handler, TaskOptions options) {
    if (entries.putIfAbsent(taskType, new Entry(handler, options)) != null) {
      throw new IllegalArgumentException(
          "task type '%s' has a handler already: a worker offers each once".formatted(taskType));
    }
    return this;
  }

  /** Offers a task type, run in the worker's process. */
  public TaskRegistry add(String taskType, TaskHandler handler) {
    return add(taskType, handler, TaskOptions.IN_PROCESS);
  }

  /** The handler of a task type; empty when it is not offered. */
  public Optional<Entry> find(String taskType) {
    return Optional.ofNullable(entries.get(taskType));
  }

  /** All of them, in the order in which they were added. */
  public Map<String, Entry> entries() {
    return Map.copyOf(entries);
  }
}
