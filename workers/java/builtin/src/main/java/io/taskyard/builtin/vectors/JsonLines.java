package io.taskyard.builtin.vectors;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.taskyard.builtin.input.Refusal;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** A file with a JSON object on each line, read line by line. */
final class JsonLines implements AutoCloseable {
  /** The one mapper of this package. */
  static final ObjectMapper JSON = new ObjectMapper();

  private static final int MOST_BYTES = 8 * 1024 * 1024;
  private static final int SHOWN = 100;

  private final InputStream in;
  private final String what;
  private int number;

  /**
   * Reads a stream.
   *
   * @param what what it is, for messages
   */
  JsonLines(InputStream in, String what) {
    this.in = new BufferedInputStream(in, 1 << 16);
    this.what = what;
  }

  /** The number of the line that was read last, from 1. */
  int number() {
    return number;
  }

  /**
   * The next line that is not empty; null at the end.
   *
   * @throws Refusal it is no JSON object, or too long
   */
  ObjectNode next() throws IOException, Refusal {
    byte[] line = line();
    while (line != null && new String(line, StandardCharsets.UTF_8).isBlank()) {
      line = line();
    }
    return line == null ? null : object(line);
  }

  private ObjectNode object(byte[] line) throws IOException, Refusal {
    try {
      JsonNode value = JSON.readTree(line);
      if (value instanceof ObjectNode object) {
        return object;
      }
    } catch (JsonProcessingException error) {
      // said below, with the line
    }
    String text = new String(line, StandardCharsets.UTF_8);
    String shown = text.substring(0, Math.min(SHOWN, text.length()));
    throw Refusal.nonRetryable("line %d of %s is no JSON object: %s", number, what, shown);
  }

  private byte[] line() throws IOException, Refusal {
    ByteArrayOutputStream line = new ByteArrayOutputStream();
    int each = in.read();
    if (each < 0) {
      return null;
    }
    number++;
    for (; each >= 0 && each != '\n'; each = in.read()) {
      if (line.size() == MOST_BYTES) {
        throw Refusal.nonRetryable(
            "line %d of %s has more than %,d bytes", number, what, MOST_BYTES);
      }
      line.write(each);
    }
    return line.toByteArray();
  }

  @Override
  public void close() throws IOException {
    in.close();
  }
}
