package io.taskyard.worker.link;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.Optional;

/** A call to the scheduler failed. */
public final class LinkException extends Exception {
  private final Status.Code code;
  private final String reason;
  private final transient Optional<Duration> retryAfter;

  /**
   * Says how it failed.
   *
   * @param code gRPC's code
   * @param reason the reason of the ErrorInfo; empty: there is none
   * @param message for people
   * @param retryAfter the delay of the RetryInfo
   */
  public LinkException(
      Status.Code code, String reason, String message, Optional<Duration> retryAfter) {
    super(message);
    this.code = code;
    this.reason = reason;
    this.retryAfter = retryAfter;
  }

  /** Turns gRPC's error into ours. */
  public static LinkException of(Throwable error) {
    Status status = Status.fromThrowable(error);
    String message =
        status.getDescription() == null ? status.getCode().name() : status.getDescription();
    Details details = Details.of(error);
    LinkException told =
        new LinkException(status.getCode(), details.reason, message, details.retryAfter);
    told.initCause(error);
    return told;
  }

  public Status.Code code() {
    return code;
  }

  /** Whether the scheduler may answer the same call later. */
  public boolean repeatable() {
    return code == Status.Code.UNAVAILABLE
        || (code == Status.Code.RESOURCE_EXHAUSTED && retryAfter.isPresent());
  }

  /** How long the scheduler asks to wait. */
  public Duration retryAfter() {
    return retryAfter.orElse(Duration.ZERO);
  }

  /** Whether the scheduler itself says why. */
  public boolean hasReason() {
    return !reason.isEmpty();
  }

  /** Whether this is the reason that it gives. */
  public boolean hasReason(String expected) {
    return reason.equals(expected);
  }

  /** Whether another session of this worker's id has taken its place. */
  public boolean superseded() {
    return hasReason("SESSION_SUPERSEDED");
  }

  /** Whether the call had no answer in time. */
  public boolean unanswered() {
    return code == Status.Code.DEADLINE_EXCEEDED;
  }

  /** What the scheduler says of an error beside its code. */
  private record Details(String reason, Optional<Duration> retryAfter) {
    static final Details NONE = new Details("", Optional.empty());

    static Details of(Throwable error) {
      Details found = NONE;
      com.google.rpc.Status status = StatusProto.fromThrowable(error);
      if (status != null) {
        for (Any detail : status.getDetailsList()) {
          found = found.with(detail);
        }
      }
      return found;
    }

    private Details with(Any detail) {
      try {
        if (detail.is(ErrorInfo.class)) {
          return new Details(detail.unpack(ErrorInfo.class).getReason(), retryAfter);
        }
        if (detail.is(RetryInfo.class)) {
          com.google.protobuf.Duration delay = detail.unpack(RetryInfo.class).getRetryDelay();
          return new Details(
              reason, Optional.of(Duration.ofSeconds(delay.getSeconds(), delay.getNanos())));
        }
      } catch (InvalidProtocolBufferException damaged) { // the code alone has to do
        return this;
      }
      return this;
    }
  }
}
