package io.taskyard.worker;

/**
 * How a handler is run.
 *
 * @param isolated in a process of its own, which can be killed; exclusive tasks need it
 */
public record TaskOptions(boolean isolated) {
  /** In the worker's process, on a virtual thread. */
  public static final TaskOptions IN_PROCESS = new TaskOptions(false);

  /** In a process of its own. */
  public static final TaskOptions ISOLATED = new TaskOptions(true);
}
