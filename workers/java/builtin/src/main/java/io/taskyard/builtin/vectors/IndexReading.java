package io.taskyard.builtin.vectors;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.taskyard.builtin.input.Refusal;
import java.io.IOException;
import java.io.InputStream;

/** An index as its file has it: the header, then an entry for each document. */
final class IndexReading implements AutoCloseable {
  private final JsonLines lines;
  private final String model;
  private final int dimensions;

  /**
   * A document with its vector.
   *
   * @param vector its numbers, all finite
   */
  record Entry(Document document, double[] vector) {}

  /**
   * Reads the header.
   *
   * @throws Refusal it is no index
   */
  IndexReading(InputStream in) throws IOException, Refusal {
    lines = new JsonLines(in, "the index");
    ObjectNode header = lines.next();
    JsonNode named = header == null ? null : header.get("model");
    JsonNode length = header == null ? null : header.get("dimensions");
    if (named == null || !named.isTextual() || length == null || length.asInt() < 1) {
      throw Refusal.nonRetryable(
          "line 1 of the index must be {\"model\": …, \"dimensions\": …}; an `index` task writes"
              + " such files");
    }
    model = named.textValue();
    dimensions = length.asInt();
  }

  String model() {
    return model;
  }

  int dimensions() {
    return dimensions;
  }

  /** The next entry; null at the end. */
  Entry next() throws IOException, Refusal {
    ObjectNode line = lines.next();
    if (line == null) {
      return null;
    }
    JsonNode id = line.get("id");
    JsonNode text = line.get("text");
    if (id == null || !id.isValueNode() || text == null || !text.isTextual()) {
      throw Refusal.nonRetryable(
          "line %d of the index is no {\"id\", \"text\", \"vector\"}", lines.number());
    }
    double[] vector = vector(line.get("vector"));
    return new Entry(new Document(id.asText(), text.textValue()), vector);
  }

  private double[] vector(JsonNode value) throws Refusal {
    double[] vector = value == null || !value.isArray() ? null : numbers(value);
    if (vector == null || vector.length != dimensions) {
      throw Refusal.nonRetryable(
          "line %d of the index has no vector of %d numbers", lines.number(), dimensions);
    }
    return vector;
  }

  /** The numbers of a JSON list; null when one is none, or not finite. */
  static double[] numbers(JsonNode list) {
    double[] numbers = new double[list.size()];
    for (int at = 0; at < numbers.length; at++) {
      numbers[at] = list.get(at).isNumber() ? list.get(at).doubleValue() : Double.NaN;
      if (!Double.isFinite(numbers[at])) {
        return null;
      }
    }
    return numbers;
  }

  @Override
  public void close() throws IOException {
    lines.close();
  }
}
