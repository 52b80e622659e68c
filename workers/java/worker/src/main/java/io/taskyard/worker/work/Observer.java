package io.taskyard.worker.work;

import io.taskyard.v1.TaskStatus;
import java.time.Duration;

/** Who counts how attempts end. */
@FunctionalInterface
public interface Observer {
  /** An attempt ended. */
  void ended(String taskType, TaskStatus status, Duration ran);
}
