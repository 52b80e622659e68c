package io.taskyard.connection;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Deadline;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.DoubleSupplier;

/**
 * Makes unary calls again where that can help and cannot do harm.
 *
 * <p>Up to four attempts, within one deadline: the call's, else this one's timeout. Only after
 * UNAVAILABLE, and RESOURCE_EXHAUSTED that says when to come back. Only reads, and what carries a
 * request id or token. Streams pass unchanged.
 */
public final class RetryingInterceptor implements ClientInterceptor {
  private final Duration timeout;
  private final Pauses pauses;
  private final Runnable beforeRepeat;

  /**
   * @param timeout for all attempts of a call that has no deadline
   */
  public RetryingInterceptor(Duration timeout) {
    this(timeout, RetryingInterceptor::draw, () -> {});
  }

  static double draw() {
    return ThreadLocalRandom.current().nextDouble();
  }

  RetryingInterceptor(Duration timeout, DoubleSupplier random, Runnable beforeRepeat) {
    this.timeout = timeout;
    this.pauses = new Pauses(random);
    this.beforeRepeat = beforeRepeat;
  }

  @Override
  public <Q, R> ClientCall<Q, R> interceptCall(
      MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
    if (method.getType() != MethodDescriptor.MethodType.UNARY) {
      return next.newCall(method, options);
    }
    return new RetryingCall<>(
        method, options.withDeadline(deadline(options)), next, pauses, beforeRepeat);
  }

  private Deadline deadline(CallOptions options) {
    Deadline given = options.getDeadline();
    return given != null ? given : Deadline.after(timeout.toNanos(), TimeUnit.NANOSECONDS);
  }
}
