package io.taskyard.worker;

import java.util.Collections;
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
  private final SequencedMap<String, String> labels = new LinkedHashMap<>();

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

  /**
   * Gives the worker a label that selectors match: what its handlers have and others may lack, such
   * as a model. A label of that name in the settings stands instead.
   *
   * @throws IllegalArgumentException the label has another value already
   */
  public TaskRegistry label(String name, String value) {
    String given = labels.putIfAbsent(name, value);
    if (given != null && !given.equals(value)) {
      throw new IllegalArgumentException(
          "label '%s' is '%s' already and cannot be '%s' too: a worker has each once"
              .formatted(name, given, value));
    }
    return this;
  }

  /** The labels, in the order in which they were given. */
  public Map<String, String> labels() {
    return Collections.unmodifiableMap(labels);
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
