package io.taskyard.client;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.grpc.Channel;
import io.grpc.Context;
import io.grpc.StatusRuntimeException;
import io.taskyard.v1.ArtifactServiceGrpc;
import io.taskyard.v1.TaskServiceGrpc;
import io.taskyard.v1.WorkflowServiceGrpc;
import java.time.Duration;
import java.util.function.Supplier;

/** What every part of the client works with: the services, and errors turned into ours. */
record Calls(Channel channel, ObjectMapper mapper, Duration timeout) {
  TaskServiceGrpc.TaskServiceBlockingStub tasks() {
    return TaskServiceGrpc.newBlockingStub(channel);
  }

  WorkflowServiceGrpc.WorkflowServiceBlockingStub workflows() {
    return WorkflowServiceGrpc.newBlockingStub(channel);
  }

  ArtifactServiceGrpc.ArtifactServiceBlockingStub artifacts() {
    return ArtifactServiceGrpc.newBlockingStub(channel);
  }

  /** Makes a call; its error becomes one of ours. */
  static <T> T call(Supplier<T> call) {
    try {
      return call.get();
    } catch (StatusRuntimeException error) {
      throw TaskyardException.of(error);
    }
  }

  /** Reads a stream within a context that is cancelled at the end, so nothing of it is left. */
  static <T> T reading(Supplier<T> body) {
    Context.CancellableContext context = Context.current().withCancellation();
    Context before = context.attach();
    try {
      return body.get();
    } finally {
      context.detach(before);
      context.cancel(null);
    }
  }
}
