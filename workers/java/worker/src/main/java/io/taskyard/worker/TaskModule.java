package io.taskyard.worker;

/**
 * Brings handlers to a worker that is started by `io.taskyard.worker.Main`: named in
 * `META-INF/services/io.taskyard.worker.TaskModule` of a jar on the class path. The process of an
 * isolated handler makes one of its own, so nothing may depend on who made it.
 */
@FunctionalInterface
public interface TaskModule {

  /** Adds this module's handlers, and labels for what they have that others may lack. */
  void addTo(TaskRegistry registry);
}
