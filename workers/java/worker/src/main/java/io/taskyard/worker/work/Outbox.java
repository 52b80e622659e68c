package io.taskyard.worker.work;

import io.taskyard.v1.AssignTaskRequest;
import io.taskyard.v1.StartAcknowledgement;
import io.taskyard.v1.TaskProgress;
import io.taskyard.v1.TaskResult;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Predicate;

/** What waits to be sent on the stream: results in their order, starts, and newest reports. */
final class Outbox {
  private static final int MAX_TASKS = 512;
  private static final int MAX_BYTES = 1024 * 1024;

  private final ArrayDeque<TaskResult> results = new ArrayDeque<>();
  private final Map<String, StartAcknowledgement> starts = new LinkedHashMap<>();
  private final Map<String, Attempt> reports = new LinkedHashMap<>();

  void started(Attempt attempt) {
    starts.put(
        attempt.token(),
        StartAcknowledgement.newBuilder()
            .setTaskId(attempt.taskId())
            .setAttemptToken(attempt.token())
            .build());
  }

  void reportsChanged(Attempt attempt) {
    reports.put(attempt.token(), attempt);
  }

  /** Sends results, which are in the spool by now. A start need not be told beside them. */
  void send(Collection<TaskResult> saved) {
    for (TaskResult result : saved) {
      starts.remove(result.getAttemptToken());
      reports.remove(result.getAttemptToken());
      results.add(result);
    }
  }

  /** Forgets what waits: on a new stream it is said anew. */
  void clear() {
    results.clear();
    starts.clear();
    reports.clear();
  }

  /** Moves into a frame what it can hold; returns whether there was anything. */
  boolean fill(AssignTaskRequest.Builder frame, Predicate<String> stillKept) {
    int bytes = fillResults(frame, stillKept);
    fillStarts(frame);
    fillReports(frame, bytes);
    return frame.getResultsCount() + frame.getAcknowledgementsCount() + frame.getProgressCount()
        > 0;
  }

  private int fillResults(AssignTaskRequest.Builder frame, Predicate<String> stillKept) {
    int bytes = 0;
    while (!results.isEmpty() && frame.getResultsCount() < MAX_TASKS && bytes < MAX_BYTES) {
      TaskResult result = results.poll();
      if (stillKept.test(result.getAttemptToken())) {
        frame.addResults(result);
        bytes += result.getSerializedSize();
      }
    }
    return bytes;
  }

  private void fillStarts(AssignTaskRequest.Builder frame) {
    Iterator<StartAcknowledgement> waiting = starts.values().iterator();
    while (waiting.hasNext() && frame.getAcknowledgementsCount() < MAX_TASKS) {
      frame.addAcknowledgements(waiting.next());
      waiting.remove();
    }
  }

  private void fillReports(AssignTaskRequest.Builder frame, int before) {
    int bytes = before;
    Iterator<Attempt> waiting = reports.values().iterator();
    while (waiting.hasNext() && frame.getProgressCount() < MAX_TASKS && bytes < MAX_BYTES) {
      Attempt attempt = waiting.next();
      TaskProgress part = attempt.reports().part(attempt.taskId(), attempt.token());
      frame.addProgress(part);
      bytes += part.getSerializedSize();
      waiting.remove();
    }
  }
}
