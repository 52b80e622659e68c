package io.taskyard.client;

import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.taskyard.connection.Details;
import java.util.stream.Collectors;

/** A call that failed. The message names the method, what is wrong and the way out. */
public sealed class TaskyardException extends RuntimeException {
  private final transient Details details;

  private TaskyardException(String message, Details details, Throwable cause) {
    super(message, cause);
    this.details = details;
  }

  /** Returns what the scheduler said beyond the message: reason, fields, when to come back. */
  public Details details() {
    return details;
  }

  /** A field breaks its rule; the details' violations say which. */
  public static final class InvalidInput extends TaskyardException {
    private InvalidInput(String message, Details details, Throwable cause) {
      super(message, details, cause);
    }
  }

  /** There is none of that id or name. */
  public static final class NotFound extends TaskyardException {
    private NotFound(String message, Details details, Throwable cause) {
      super(message, details, cause);
    }
  }

  /** It is not in a state in which that can be done, or exists already. */
  public static final class WrongState extends TaskyardException {
    private WrongState(String message, Details details, Throwable cause) {
      super(message, details, cause);
    }
  }

  /** The token is missing or bad, or its role may not do that. */
  public static final class NotAllowed extends TaskyardException {
    private NotAllowed(String message, Details details, Throwable cause) {
      super(message, details, cause);
    }
  }

  /** The scheduler has too much to do, or no room; the details say when to come back. */
  public static final class Overloaded extends TaskyardException {
    private Overloaded(String message, Details details, Throwable cause) {
      super(message, details, cause);
    }
  }

  /** No scheduler that leads could be reached. */
  public static final class Unavailable extends TaskyardException {
    private Unavailable(String message, Details details, Throwable cause) {
      super(message, details, cause);
    }
  }

  /** The time that the call might take is over; what was asked may still be done. */
  public static final class DeadlineExceeded extends TaskyardException {
    private DeadlineExceeded(String message, Details details, Throwable cause) {
      super(message, details, cause);
    }
  }

  static TaskyardException of(StatusRuntimeException error) {
    Status status = error.getStatus();
    Metadata trailers = error.getTrailers() == null ? new Metadata() : error.getTrailers();
    return of(status, Details.of(status, trailers), error);
  }

  private static TaskyardException of(Status status, Details details, Throwable cause) {
    String said = message(status, details);
    return switch (status.getCode()) {
      case INVALID_ARGUMENT, OUT_OF_RANGE -> new InvalidInput(said, details, cause);
      case NOT_FOUND -> new NotFound(said, details, cause);
      case FAILED_PRECONDITION, ALREADY_EXISTS, ABORTED -> new WrongState(said, details, cause);
      case UNAUTHENTICATED ->
          new NotAllowed(said + "; give a good token (TASKYARD_TOKEN)", details, cause);
      case PERMISSION_DENIED -> new NotAllowed(said, details, cause);
      case RESOURCE_EXHAUSTED -> new Overloaded(said, details, cause);
      case UNAVAILABLE ->
          new Unavailable(said + "; is a scheduler running at that address?", details, cause);
      case DEADLINE_EXCEEDED -> new DeadlineExceeded(said, details, cause);
      default -> new TaskyardException(said, details, cause);
    };
  }

  private static String message(Status status, Details details) {
    String text =
        status.getDescription() == null ? status.getCode().name() : status.getDescription();
    String fields =
        details.violations().stream()
            .filter(one -> !text.contains(one.description()))
            .map(one -> one.field() + ": " + one.description())
            .collect(Collectors.joining("; "));
    return fields.isEmpty() ? text : text + " (" + fields + ")";
  }
}
