package io.taskyard.builtin.text;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * What a task was given beside its text and operation.
 *
 * @param values by name, in the order given
 */
record Options(ObjectNode values) {

  /** What was given under a name; null where it was left out, or is JSON's null. */
  JsonNode get(String name) {
    JsonNode value = values.get(name);
    return value == null || value.isNull() ? null : value;
  }

  /**
   * The text to process.
   *
   * @throws TextInputException it is absent, or no text
   */
  String text() {
    JsonNode value = values.get("text");
    if (value == null || !value.isTextual()) {
      String remedy = "Give the text to process as a string.";
      throw new TextInputException("text", value, "must be a string", remedy);
    }
    return value.textValue();
  }
}
