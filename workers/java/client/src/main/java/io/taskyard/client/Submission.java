package io.taskyard.client;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.taskyard.v1.Placement;
import io.taskyard.v1.TaskSubmission;
import io.taskyard.v1.TimeoutPolicy;
import java.time.Duration;
import java.util.UUID;
import java.util.function.Consumer;

/**
 * A task to submit. Each method returns another one, with that option; what is not said is the
 * scheduler's default.
 */
public final class Submission {
  private final TaskSubmission proto;
  private final Object input;

  private Submission(TaskSubmission proto, Object input) {
    this.proto = proto;
    this.input = input;
  }

  /**
   * Returns a submission without options, with a request id of its own: sent twice, it is one task.
   *
   * @param taskType which handler runs it
   * @param input what Jackson writes as a JSON object
   */
  public static Submission of(String taskType, Object input) {
    TaskSubmission.Builder made = TaskSubmission.newBuilder().setTaskType(taskType);
    return new Submission(made.setRequestId(UUID.randomUUID().toString()).build(), input);
  }

  /** Makes a repeat harmless for 24 hours; replaces the id that was drawn. */
  public Submission requestId(String id) {
    return with(b -> b.setRequestId(id));
  }

  /** From 1 (first) to 10 (last). */
  public Submission priority(int priority) {
    return with(b -> b.setPriority(priority));
  }

  /** Labels that the worker must have, such as {@code lang=java,gpu}. */
  public Submission selector(String selector) {
    return with(b -> b.setPlacement(Placement.newBuilder(b.getPlacement()).setSelector(selector)));
  }

  /** What one attempt may take. */
  public Submission runTimeout(Duration timeout) {
    return with(b -> b.setTimeouts(timeouts(b).setRunTimeout(Protos.duration(timeout))));
  }

  /** What all attempts and waits may take together. */
  public Submission totalTimeout(Duration timeout) {
    return with(b -> b.setTimeouts(timeouts(b).setTotalTimeout(Protos.duration(timeout))));
  }

  /** How often it is tried. */
  public Submission retry(Retry retry) {
    return with(b -> b.setRetry(retry.toProto()));
  }

  /** Tasks with the same key are one, for as long as the first is kept. */
  public Submission idempotencyKey(String key) {
    return with(b -> b.setIdempotencyKey(key));
  }

  /** It is queued no earlier than so long from now. */
  public Submission delay(Duration delay) {
    return with(b -> b.setStartDelay(Protos.duration(delay)));
  }

  /** Never two attempts alive at once. */
  public Submission exclusive() {
    return with(b -> b.setExclusive(true));
  }

  /** A word to find it by. */
  public Submission tag(String tag) {
    return with(b -> b.addTags(tag));
  }

  TaskSubmission toProto(ObjectMapper mapper) {
    return proto.toBuilder().setInputJson(Protos.json(mapper, input)).build();
  }

  private static TimeoutPolicy.Builder timeouts(TaskSubmission.Builder builder) {
    return builder.getTimeouts().toBuilder();
  }

  private Submission with(Consumer<TaskSubmission.Builder> change) {
    TaskSubmission.Builder builder = proto.toBuilder();
    change.accept(builder);
    return new Submission(builder.build(), input);
  }
}
