package io.taskyard.worker.artifacts;

import io.taskyard.v1.ArtifactAttempt;
import io.taskyard.worker.work.Attempt;

/**
 * The attempt that a transfer is for.
 *
 * @param name as the contract wants it
 */
record Owner(ArtifactAttempt name) {
  static Owner of(String workerId, Attempt attempt) {
    return new Owner(
        ArtifactAttempt.newBuilder()
            .setWorkerId(workerId)
            .setTaskId(attempt.taskId())
            .setAttemptToken(attempt.token())
            .build());
  }
}
