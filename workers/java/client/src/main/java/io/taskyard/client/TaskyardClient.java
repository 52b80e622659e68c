package io.taskyard.client;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.grpc.ManagedChannel;
import io.taskyard.connection.Channels;
import io.taskyard.connection.ConnectionSettings;
import io.taskyard.v1.ListTasksRequest;
import io.taskyard.v1.ListTasksResponse;
import io.taskyard.v1.RunSubmission;
import io.taskyard.v1.StartOutcome;
import io.taskyard.v1.StartRunsRequest;
import io.taskyard.v1.SubmitOutcome;
import io.taskyard.v1.SubmitTasksRequest;
import io.taskyard.v1.TaskInstance;
import java.util.List;
import java.util.UUID;

/** A way to a scheduler for those who have work. Threads may share one; close it when done. */
public final class TaskyardClient implements AutoCloseable {
  private final ManagedChannel channel;
  private final Calls calls;

  TaskyardClient(ManagedChannel channel, ConnectionSettings settings) {
    this.channel = channel;
    this.calls = new Calls(channel, new ObjectMapper(), settings.timeout());
  }

  /** Returns a client; it connects with its first call. */
  public static TaskyardClient connect(ConnectionSettings settings) {
    return new TaskyardClient(Channels.open(settings), settings);
  }

  /**
   * Submits a task. When this returns, the task is committed.
   *
   * @throws RefusedException the scheduler does not take it
   */
  public TaskHandle submit(Submission submission) {
    return submitAll(List.of(submission)).getFirst();
  }

  /** Submits tasks, all or none of them; the handles are in their order. */
  public List<TaskHandle> submitAll(List<Submission> submissions) {
    SubmitTasksRequest.Builder request = SubmitTasksRequest.newBuilder().setAtomic(true);
    submissions.forEach(one -> request.addTasks(one.toProto(calls.mapper())));
    return Calls.call(() -> calls.tasks().submitTasks(request.build())).getOutcomesList().stream()
        .map(this::handle)
        .toList();
  }

  /**
   * Starts a run of a workflow's newest version.
   *
   * @param inputs what Jackson writes as a JSON object
   * @throws RefusedException the scheduler does not take it
   */
  public RunHandle start(String workflow, Object inputs) {
    RunSubmission run =
        RunSubmission.newBuilder()
            .setRequestId(UUID.randomUUID().toString())
            .setWorkflow(workflow)
            .setInputsJson(Protos.json(calls.mapper(), inputs))
            .build();
    return start(run);
  }

  /** Starts a run with the contract's own options; it must have a request id. */
  public RunHandle start(RunSubmission run) {
    StartRunsRequest request = StartRunsRequest.newBuilder().addRuns(run).build();
    return handle(Calls.call(() -> calls.workflows().startRuns(request)).getOutcomes(0));
  }

  /** Returns a handle for a task that was submitted before; nothing is asked yet. */
  public TaskHandle task(String taskId) {
    return new TaskHandle(calls, taskId, false);
  }

  /** Returns a handle for a run that was started before; nothing is asked yet. */
  public RunHandle run(String runId) {
    return new RunHandle(calls, runId, false);
  }

  /**
   * Returns the first tasks that match, newest first.
   *
   * @param filter in the language of docs/filters.md; empty: all
   */
  public List<TaskInstance> listTasks(String filter, int limit) {
    ListTasksRequest request =
        ListTasksRequest.newBuilder().setFilter(filter).setPageSize(limit).build();
    ListTasksResponse page = Calls.call(() -> calls.tasks().listTasks(request));
    return page.getTasksList();
  }

  /** Returns what moves artifacts. */
  public ArtifactCalls artifacts() {
    return new ArtifactCalls(calls);
  }

  /** Ends the connection; what still waits on it ends with an exception. */
  @Override
  public void close() {
    channel.shutdownNow();
  }

  private TaskHandle handle(SubmitOutcome outcome) {
    if (outcome.hasRefusal()) {
      throw new RefusedException(outcome.getRefusal());
    }
    return new TaskHandle(calls, outcome.getTaskId(), outcome.getRepeatedRequest());
  }

  private RunHandle handle(StartOutcome outcome) {
    if (outcome.hasRefusal()) {
      throw new RefusedException(outcome.getRefusal());
    }
    return new RunHandle(calls, outcome.getRunId(), outcome.getRepeatedRequest());
  }
}
