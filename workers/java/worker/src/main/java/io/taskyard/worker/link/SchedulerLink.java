package io.taskyard.worker.link;

import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.taskyard.v1.AppendLogsRequest;
import io.taskyard.v1.AppendLogsResponse;
import io.taskyard.v1.DeregisterRequest;
import io.taskyard.v1.HeartbeatRequest;
import io.taskyard.v1.HeartbeatResponse;
import io.taskyard.v1.RegisterRequest;
import io.taskyard.v1.RegisterResponse;
import io.taskyard.v1.WorkerServiceGrpc;
import io.taskyard.v1.WorkerServiceGrpc.WorkerServiceBlockingStub;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.Supplier;
import java.util.random.RandomGenerator;

/** The way to the scheduler: a channel that can be given up for another. From any thread. */
public final class SchedulerLink implements AutoCloseable {
  private static final Duration REGISTER = Duration.ofSeconds(10);
  private static final Duration HEARTBEAT = Duration.ofSeconds(5);
  private static final Duration DEREGISTER = Duration.ofSeconds(5);
  private static final Duration LOGS = Duration.ofSeconds(10);

  private final Supplier<ManagedChannel> channels;
  private final Retries retries;
  private volatile ManagedChannel channel;

  /**
   * Opens the way.
   *
   * @param channels makes channels with connections of their own, which send the token
   * @param random source of jitter
   */
  public SchedulerLink(Supplier<ManagedChannel> channels, RandomGenerator random) {
    this.channels = channels;
    this.retries = new Retries(random);
    this.channel = channels.get();
  }

  /** Announces the worker. */
  public RegisterResponse register(RegisterRequest request)
      throws LinkException, InterruptedException {
    return call(REGISTER, WorkerServiceBlockingStub::register, request);
  }

  /** Tells that the worker lives. */
  public HeartbeatResponse heartbeat(HeartbeatRequest request)
      throws LinkException, InterruptedException {
    return call(HEARTBEAT, WorkerServiceBlockingStub::heartbeat, request);
  }

  /** Ends the session. */
  public void deregister(DeregisterRequest request) throws LinkException, InterruptedException {
    call(DEREGISTER, WorkerServiceBlockingStub::deregister, request);
  }

  /** Appends log lines. */
  public AppendLogsResponse appendLogs(AppendLogsRequest request)
      throws LinkException, InterruptedException {
    return call(LOGS, WorkerServiceBlockingStub::appendLogs, request);
  }

  /** Opens the stream on which tasks come. */
  public WorkerStream openStream(WorkerStream.Listener listener) {
    channel.resetConnectBackoff(); // how long to wait is the caller's to say
    return WorkerStream.open(WorkerServiceGrpc.newStub(channel), listener);
  }

  /** Closes the channel, with every call on it, and goes on with another. */
  public synchronized void renew() {
    ManagedChannel givenUp = channel;
    channel = channels.get();
    givenUp.shutdownNow();
  }

  @Override
  public synchronized void close() {
    channel.shutdownNow();
  }

  private <Q, A> A call(
      Duration limit, BiFunction<WorkerServiceBlockingStub, Q, A> method, Q request)
      throws LinkException, InterruptedException {
    return retries.call(limit, within -> once(within, method, request));
  }

  private <Q, A> A once(
      Duration within, BiFunction<WorkerServiceBlockingStub, Q, A> method, Q request)
      throws LinkException {
    channel.resetConnectBackoff();
    try {
      WorkerServiceBlockingStub stub = WorkerServiceGrpc.newBlockingStub(channel);
      return method.apply(stub.withDeadlineAfter(within.toNanos(), TimeUnit.NANOSECONDS), request);
    } catch (StatusRuntimeException error) {
      throw LinkException.of(error);
    }
  }
}
