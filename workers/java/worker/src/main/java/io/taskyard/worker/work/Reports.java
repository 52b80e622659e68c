package io.taskyard.worker.work;

import io.taskyard.v1.TaskProgress;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.concurrent.CompletableFuture;

/**
 * What a running attempt has told: its progress, and its checkpoints with those who wait for them.
 */
final class Reports {
  private record Waiter(long number, CompletableFuture<Boolean> committed) {}

  private final List<Waiter> waiters = new ArrayList<>();
  private OptionalDouble percent = OptionalDouble.empty();
  private String message = "";
  private String checkpoint = "";
  private long number;
  private long acknowledged;
  private boolean unconfirmed;

  void progress(double newPercent, String newMessage) {
    percent = OptionalDouble.of(newPercent);
    message = newMessage;
  }

  void cannotBeStopped() {
    unconfirmed = true;
  }

  void checkpoint(String state, CompletableFuture<Boolean> committed) {
    checkpoint = state;
    waiters.add(new Waiter(++number, committed));
  }

  Optional<String> newestCheckpoint() {
    return number == 0 ? Optional.empty() : Optional.of(checkpoint);
  }

  void acknowledge(long upTo) {
    acknowledged = Math.max(acknowledged, upTo);
    waiters.removeIf(waiter -> waiter.number <= upTo && waiter.committed.complete(true));
  }

  /** Lets everyone go who waits for a checkpoint: the attempt stops or has ended. */
  void release() {
    waiters.forEach(waiter -> waiter.committed.complete(false));
    waiters.clear();
  }

  /** What has to be sent now; a checkpoint stays in it until it is acknowledged. */
  TaskProgress part(String taskId, String token) {
    TaskProgress.Builder part =
        TaskProgress.newBuilder()
            .setTaskId(taskId)
            .setAttemptToken(token)
            .setMessage(message)
            .setCancelUnconfirmed(unconfirmed);
    percent.ifPresent(part::setPercent);
    if (number > acknowledged) {
      part.setCheckpoint(checkpoint).setCheckpointNumber(number);
    }
    return part.build();
  }
}
