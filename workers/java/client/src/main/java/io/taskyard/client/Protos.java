package io.taskyard.client;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.Duration;

/** Values of Java as the contract writes them. */
final class Protos {
  private Protos() {}

  static Duration duration(java.time.Duration given) {
    return Duration.newBuilder().setSeconds(given.getSeconds()).setNanos(given.getNano()).build();
  }

  static String json(ObjectMapper mapper, Object value) {
    try {
      return mapper.writeValueAsString(value);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException(
          "input cannot be written as JSON: " + error.getOriginalMessage(), error);
    }
  }

  static <T> T value(ObjectMapper mapper, String json, Class<T> type) {
    try {
      return mapper.readValue(json.isEmpty() ? "null" : json, type);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException(
          "the output is no " + type.getSimpleName() + ": " + error.getOriginalMessage(), error);
    }
  }
}
