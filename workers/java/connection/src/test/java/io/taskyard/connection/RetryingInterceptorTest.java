package io.taskyard.connection;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import io.taskyard.v1.CancelTaskRequest;
import io.taskyard.v1.CancelTaskResponse;
import io.taskyard.v1.GetTaskRequest;
import io.taskyard.v1.GetTaskResponse;
import io.taskyard.v1.SubmitTasksRequest;
import io.taskyard.v1.SubmitTasksResponse;
import io.taskyard.v1.TaskServiceGrpc;
import io.taskyard.v1.TaskSubmission;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What is repeated and what is not, seen from a server at the other end. */
final class RetryingInterceptorTest {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final Queue<RuntimeException> failures = new ArrayDeque<>();
  private final Queue<String> tokens = new ConcurrentLinkedQueue<>();
  private final AtomicBoolean started = new AtomicBoolean();
  private Server server;
  private ManagedChannel channel;
  private TaskServiceGrpc.TaskServiceBlockingStub tasks;

  @BeforeEach
  void open() throws IOException {
    String name = InProcessServerBuilder.generateName();
    server =
        InProcessServerBuilder.forName(name)
            .intercept(new Noting())
            .addService(new Failing())
            .build()
            .start();
    ConnectionSettings settings = ConnectionSettings.of("in-process:1").withToken("secret");
    channel = Channels.prepare(InProcessChannelBuilder.forName(name), settings).build();
    tasks = TaskServiceGrpc.newBlockingStub(channel);
  }

  @AfterEach
  void close() throws InterruptedException {
    channel.shutdownNow();
    server.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
  }

  @Test
  void aReadIsMadeAgainWhenNobodyWasThere() {
    fail(Status.UNAVAILABLE, 3);
    assertEquals("done", tasks.getTask(get()).getTask().getTaskId());
    assertEquals(
        List.of("Bearer secret", "Bearer secret", "Bearer secret", "Bearer secret"),
        List.copyOf(tokens));
  }

  @Test
  void theFourthFailureIsTheLastAndNamesTheMethod() {
    fail(Status.UNAVAILABLE.withDescription("away"), 5);
    StatusRuntimeException error =
        assertThrows(StatusRuntimeException.class, () -> tasks.getTask(get()));
    assertEquals(
        "taskyard.v1.TaskService/GetTask failed after 4 attempts: away",
        error.getStatus().getDescription());
    assertEquals(4, tokens.size());
  }

  @Test
  void noOtherCodeIsRepeated() {
    for (Status.Code code : Status.Code.values()) {
      if (code == Status.Code.OK || code == Status.Code.UNAVAILABLE) {
        continue;
      }
      tokens.clear();
      fail(code.toStatus(), 1);
      var error = assertThrows(StatusRuntimeException.class, () -> tasks.getTask(get()));
      assertEquals(code, error.getStatus().getCode());
      assertEquals(1, tokens.size(), code.name());
    }
  }

  @Test
  void anOverloadedSchedulerIsAskedAgainWhenItSaysWhen() {
    failures.add(overloaded(Duration.ofMillis(300)));
    long before = System.nanoTime();
    tasks.getTask(get());
    assertTrue(System.nanoTime() - before >= Duration.ofMillis(300).toNanos());
    assertEquals(2, tokens.size());
  }

  @Test
  void aWaitThatTheDeadlineCutsIsNotBegun() {
    failures.add(overloaded(Duration.ofSeconds(50)));
    assertThrows(StatusRuntimeException.class, () -> tasks.getTask(get()));
    assertEquals(1, tokens.size());
  }

  @Test
  void aChangeIsRepeatedOnlyWithARequestId() {
    fail(Status.UNAVAILABLE, 1);
    var bare = CancelTaskRequest.newBuilder().setTaskId("t").build();
    assertThrows(StatusRuntimeException.class, () -> tasks.cancelTask(bare));
    assertEquals(1, tokens.size());
    fail(Status.UNAVAILABLE, 1);
    tasks.cancelTask(bare.toBuilder().setRequestId("r").build());
    assertEquals(3, tokens.size());
  }

  @Test
  void aBatchIsRepeatedOnlyWhenEachPartHasARequestId() {
    var keyed = TaskSubmission.newBuilder().setRequestId("r").build();
    var half =
        SubmitTasksRequest.newBuilder().addTasks(keyed).addTasks(TaskSubmission.newBuilder());
    fail(Status.UNAVAILABLE, 1);
    assertThrows(StatusRuntimeException.class, () -> tasks.submitTasks(half.build()));
    assertEquals(1, tokens.size());
    fail(Status.UNAVAILABLE, 1);
    tasks.submitTasks(SubmitTasksRequest.newBuilder().addTasks(keyed).build());
    assertEquals(3, tokens.size());
  }

  @Test
  void detailsAreKept() {
    failures.add(refused());
    var error = assertThrows(StatusRuntimeException.class, () -> tasks.getTask(get()));
    Details details = Details.of(error.getStatus(), error.getTrailers());
    assertEquals("BAD_FIELD", details.reason());
    assertEquals(List.of(new Details.Violation("task_id", "must be an id")), details.violations());
  }

  @Test
  void aSchedulerThatComesBackIsFoundByTheRepeats() throws Exception {
    int port;
    try (var free = new java.net.ServerSocket(0)) {
      port = free.getLocalPort();
    }
    var late =
        io.grpc.Grpc.newServerBuilderForPort(port, io.grpc.InsecureServerCredentials.create())
            .addService(new Failing())
            .build();
    var real = Channels.open(ConnectionSettings.of("127.0.0.1:" + port), () -> startOnce(late));
    try {
      var found = TaskServiceGrpc.newBlockingStub(real).getTask(get());
      assertEquals("done", found.getTask().getTaskId());
    } finally {
      real.shutdownNow();
      late.shutdownNow();
    }
  }

  /** Draws the jitter, which is done when the first attempt has failed. */
  private double startOnce(Server late) {
    try {
      if (started.compareAndSet(false, true)) {
        late.start();
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return 0.5;
  }

  private void fail(Status status, int times) {
    failures.clear();
    for (int i = 0; i < times; i++) {
      failures.add(status.asRuntimeException());
    }
  }

  private static GetTaskRequest get() {
    return GetTaskRequest.newBuilder().setTaskId("t").build();
  }

  private static StatusRuntimeException overloaded(Duration wait) {
    var delay = com.google.protobuf.Duration.newBuilder();
    delay.setSeconds(wait.toSeconds()).setNanos(wait.toNanosPart());
    var detail = Any.pack(RetryInfo.newBuilder().setRetryDelay(delay).build());
    return error(Status.Code.RESOURCE_EXHAUSTED, detail);
  }

  private static StatusRuntimeException refused() {
    var violation =
        BadRequest.FieldViolation.newBuilder().setField("task_id").setDescription("must be an id");
    return error(
        Status.Code.INVALID_ARGUMENT,
        Any.pack(ErrorInfo.newBuilder().setReason("BAD_FIELD").build()),
        Any.pack(BadRequest.newBuilder().addFieldViolations(violation).build()));
  }

  private static StatusRuntimeException error(Status.Code code, Any... details) {
    return StatusProto.toStatusRuntimeException(
        com.google.rpc.Status.newBuilder()
            .setCode(code.value())
            .addAllDetails(List.of(details))
            .build());
  }

  private final class Noting implements ServerInterceptor {
    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
      tokens.add(headers.get(AUTHORIZATION));
      return next.startCall(call, headers);
    }
  }

  private final class Failing extends TaskServiceGrpc.TaskServiceImplBase {
    @Override
    public void getTask(GetTaskRequest request, StreamObserver<GetTaskResponse> out) {
      var response = GetTaskResponse.newBuilder();
      response.getTaskBuilder().setTaskId("done");
      answer(out, response.build());
    }

    @Override
    public void cancelTask(CancelTaskRequest request, StreamObserver<CancelTaskResponse> out) {
      answer(out, CancelTaskResponse.getDefaultInstance());
    }

    @Override
    public void submitTasks(SubmitTasksRequest request, StreamObserver<SubmitTasksResponse> out) {
      answer(out, SubmitTasksResponse.getDefaultInstance());
    }

    private <T> void answer(StreamObserver<T> out, T response) {
      RuntimeException failure = failures.poll();
      if (failure != null) {
        out.onError(failure);
      } else {
        out.onNext(response);
        out.onCompleted();
      }
    }
  }
}
