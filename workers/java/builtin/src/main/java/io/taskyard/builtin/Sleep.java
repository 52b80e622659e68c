package io.taskyard.builtin;

import com.fasterxml.jackson.databind.JsonNode;
import io.taskyard.builtin.input.Fields;
import io.taskyard.builtin.input.Guarded;
import io.taskyard.builtin.input.Refusal;
import io.taskyard.worker.TaskContext;
import io.taskyard.worker.TaskInput;
import io.taskyard.worker.TaskOutcome;
import java.util.List;
import java.util.Map;

/** The task type `sleep`: waits, at most 30 days; what is cancelled wakes at once. */
final class Sleep implements Guarded {
  private static final double MOST_S = 30 * 24 * 3600.0;

  @Override
  public TaskOutcome run(TaskInput input, TaskContext context)
      throws Refusal, InterruptedException {
    double seconds = seconds(Fields.of("sleep", input.values(), List.of("seconds")).get("seconds"));
    Thread.sleep((long) (seconds * 1000), (int) (seconds * 1e9 % 1e6));
    return TaskOutcome.success(Map.of("slept_seconds", seconds));
  }

  private static double seconds(JsonNode value) throws Refusal {
    double seconds = value == null || value.isBoolean() ? Double.NaN : number(value.asText());
    if (!(seconds >= 0 && seconds <= MOST_S)) {
      throw Refusal.invalid(
          "'seconds' is %s; it must be a number from 0 to %.0f", Fields.shown(value), MOST_S);
    }
    return seconds;
  }

  private static double number(String text) {
    try {
      return Double.parseDouble(text);
    } catch (NumberFormatException error) {
      return Double.NaN;
    }
  }
}
