package io.taskyard.builtin;

import io.taskyard.builtin.text.TextInputException;
import io.taskyard.builtin.text.TextOperation;
import io.taskyard.worker.TaskContext;
import io.taskyard.worker.TaskHandler;
import io.taskyard.worker.TaskInput;
import io.taskyard.worker.TaskOutcome;

/** The task type `text_process`, as docs/text-operations.md specifies it. */
final class TextProcess implements TaskHandler {

  @Override
  public TaskOutcome handle(TaskInput input, TaskContext context) {
    try {
      return TaskOutcome.success(TextOperation.process(input.values()));
    } catch (TextInputException error) {
      return TaskOutcome.failure(TaskOutcome.INVALID_INPUT, error.getMessage());
    }
  }
}
