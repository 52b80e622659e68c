package io.taskyard.worker;

/**
 * Does the work of one task type. One handler serves many attempts at once, each on a virtual
 * thread of its own.
 */
@FunctionalInterface
public interface TaskHandler {

  /**
   * Runs one attempt.
   *
   * @param input what the task was given
   * @param context the attempt: its identity, log, progress, checkpoint, artifacts, and whether it
   *     is to stop
   * @return how it ended
   * @throws InterruptedException the attempt was told to stop; it ends as CANCELLED or TIMEOUT,
   *     whichever it was
   * @throws Exception anything else is a failure of the kind HANDLER_ERROR, which the retry policy
   *     may try again
   */
  TaskOutcome handle(TaskInput input, TaskContext context) throws Exception;
}
