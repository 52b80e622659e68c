package io.taskyard.connection;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * What a scheduler's error says beyond its code: google.rpc.Status's details.
 *
 * @param reason a fixed word, from google.rpc.ErrorInfo; empty when a proxy answered
 * @param metadata further values, from google.rpc.ErrorInfo
 * @param violations the fields that are wrong, each with the rule
 * @param retryAfter how long to wait before another try
 */
public record Details(
    String reason,
    Map<String, String> metadata,
    List<Violation> violations,
    Optional<Duration> retryAfter) {

  /** A field that is wrong, and why. */
  public record Violation(String field, String description) {}

  /** Returns the details that an error came with. */
  public static Details of(Status status, Metadata trailers) {
    com.google.rpc.Status proto = StatusProto.fromStatusAndTrailers(status, trailers);
    Optional<ErrorInfo> info = find(proto, ErrorInfo.class);
    return new Details(
        info.map(ErrorInfo::getReason).orElse(""),
        info.map(ErrorInfo::getMetadataMap).orElse(Map.of()),
        find(proto, BadRequest.class).map(Details::violations).orElse(List.of()),
        find(proto, RetryInfo.class).map(Pauses::of));
  }

  private static List<Violation> violations(BadRequest request) {
    return request.getFieldViolationsList().stream()
        .map(one -> new Violation(one.getField(), one.getDescription()))
        .toList();
  }

  private static <T extends Message> Optional<T> find(com.google.rpc.Status proto, Class<T> type) {
    return proto.getDetailsList().stream()
        .filter(any -> any.is(type))
        .findFirst()
        .map(any -> unpacked(any, type));
  }

  private static <T extends Message> T unpacked(Any any, Class<T> type) {
    try {
      return any.unpack(type);
    } catch (InvalidProtocolBufferException error) {
      throw new IllegalStateException(
          "a detail of an error is damaged: " + any.getTypeUrl(), error);
    }
  }
}
