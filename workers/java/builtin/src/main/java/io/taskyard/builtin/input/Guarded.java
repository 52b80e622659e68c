package io.taskyard.builtin.input;

import io.taskyard.worker.TaskContext;
import io.taskyard.worker.TaskHandler;
import io.taskyard.worker.TaskInput;
import io.taskyard.worker.TaskOutcome;

/** A handler that may refuse its input. */
@FunctionalInterface
public interface Guarded {

  /**
   * Runs one attempt.
   *
   * @throws Refusal no retry can mend it
   * @throws InterruptedException the attempt was told to stop
   * @throws Exception a failure that may be tried again
   */
  TaskOutcome run(TaskInput input, TaskContext context) throws Exception;

  /** The handler as a worker takes it. */
  static TaskHandler handler(Guarded guarded) {
    return (input, context) -> {
      try {
        return guarded.run(input, context);
      } catch (Refusal refusal) {
        return refusal.outcome();
      }
    };
  }
}
