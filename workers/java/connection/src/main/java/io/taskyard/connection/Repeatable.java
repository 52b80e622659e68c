package io.taskyard.connection;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import java.util.List;
import java.util.Set;

/** Tells which calls may be made again without being done twice. */
final class Repeatable {
  private static final List<String> READS = List.of("Get", "List", "Count", "Explain");
  private static final Set<String> KEYS = Set.of("request_id", "token", "attempt_token");

  private Repeatable() {}

  /** Says whether this is a read, or carries a request id or token in every part that acts. */
  static boolean test(MethodDescriptor<?, ?> method, Object request) {
    if (method.getType() != MethodType.UNARY) {
      return false;
    }
    String name = method.getBareMethodName();
    return READS.stream().anyMatch(name::startsWith)
        || (request instanceof Message message && keyed(message));
  }

  private static boolean keyed(Message message) {
    return hasKey(message)
        || message.getDescriptorForType().getFields().stream()
            .anyMatch(field -> allKeyed(message, field));
  }

  private static boolean hasKey(Message message) {
    return message.getAllFields().keySet().stream().anyMatch(f -> KEYS.contains(f.getName()));
  }

  private static boolean allKeyed(Message message, FieldDescriptor field) {
    if (!field.isRepeated() || field.getJavaType() != FieldDescriptor.JavaType.MESSAGE) {
      return false;
    }
    List<?> parts = (List<?>) message.getField(field);
    return !parts.isEmpty() && parts.stream().allMatch(part -> hasKey((Message) part));
  }
}
