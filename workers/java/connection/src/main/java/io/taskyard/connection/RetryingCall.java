package io.taskyard.connection;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.ForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/** One unary call, of which each attempt is a call of its own. No thread waits in between. */
final class RetryingCall<Q, R> extends ClientCall<Q, R> {
  private final MethodDescriptor<Q, R> method;
  private final CallOptions options;
  private final Channel next;
  private final Pauses pauses;
  private final Runnable beforeRepeat;
  private final Context context = Context.current();

  private Listener<R> listener;
  private Metadata headers;
  private Q request;
  private ClientCall<Q, R> current;
  private int wanted;
  private int attempt;
  private boolean waiting;
  private Status cancelled;

  RetryingCall(
      MethodDescriptor<Q, R> method,
      CallOptions options,
      Channel next,
      Pauses pauses,
      Runnable beforeRepeat) {
    this.method = method;
    this.options = options;
    this.next = next;
    this.pauses = pauses;
    this.beforeRepeat = beforeRepeat;
  }

  @Override
  public void start(Listener<R> given, Metadata metadata) {
    listener = given;
    headers = metadata;
  }

  @Override
  public synchronized void request(int count) {
    wanted += count;
    if (current != null) {
      current.request(count);
    }
  }

  @Override
  public void sendMessage(Q message) {
    request = message;
  }

  @Override
  public void halfClose() {
    attempt();
  }

  @Override
  public synchronized void cancel(String message, Throwable cause) {
    if (cancelled != null) {
      return;
    }
    cancelled = Status.CANCELLED.withDescription(message).withCause(cause);
    if (current != null && !waiting) {
      current.cancel(message, cause);
    } else if (listener != null) {
      closeCancelled();
    }
  }

  private void closeCancelled() {
    Executor executor = options.getExecutor();
    Runnable closing = () -> listener.onClose(cancelled, new Metadata());
    (executor == null ? (Executor) Runnable::run : executor).execute(closing);
  }

  private synchronized void attempt() {
    if (cancelled != null) {
      return; // its listener was told by whoever cancelled
    }
    waiting = false;
    attempt++;
    ClientCall<Q, R> call = next.newCall(method, options);
    current = call;
    Metadata copy = new Metadata();
    copy.merge(headers);
    call.start(new AttemptListener(), copy);
    call.request(Math.max(wanted, 2)); // a second message of a unary call is noticed as a fault
    call.sendMessage(request);
    call.halfClose();
  }

  private synchronized boolean again(Status status, Metadata trailers) {
    if (cancelled != null || !Repeatable.test(method, request)) {
      return false;
    }
    Optional<Duration> pause = pauses.after(attempt, status, trailers).filter(this::fits);
    waiting = pause.isPresent();
    pause.ifPresent(wait ->
        CompletableFuture.delayedExecutor(wait.toNanos(), TimeUnit.NANOSECONDS)
            .execute(context.wrap(this::repeat)));
    return waiting;
  }

  private void repeat() {
    beforeRepeat.run();
    attempt();
  }

  private boolean fits(Duration pause) {
    return pause.toNanos() < options.getDeadline().timeRemaining(TimeUnit.NANOSECONDS);
  }

  private Status told(Status status) {
    String tries = attempt == 1 ? "" : " after " + attempt + " attempts";
    String said = status.getDescription() == null ? "" : ": " + status.getDescription();
    return status.withDescription(method.getFullMethodName() + " failed" + tries + said);
  }

  private final class AttemptListener
      extends ForwardingClientCallListener.SimpleForwardingClientCallListener<R> {
    private Metadata received;

    AttemptListener() {
      super(listener);
    }

    @Override
    public void onHeaders(Metadata given) {
      received = given; // kept back: an attempt that fails must leave no trace
    }

    @Override
    public void onMessage(R message) {
      super.onHeaders(received);
      super.onMessage(message);
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      if (status.isOk()) {
        super.onClose(status, trailers);
      } else if (!again(status, trailers)) {
        super.onClose(told(status), trailers);
      }
    }
  }
}
