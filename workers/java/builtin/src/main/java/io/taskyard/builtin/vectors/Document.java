package io.taskyard.builtin.vectors;

import com.fasterxml.jackson.databind.JsonNode;
import io.taskyard.builtin.input.Refusal;

/**
 * What is found.
 *
 * @param id unique for whoever made the index
 */
record Document(String id, String text) {

  /**
   * Reads a document as an input or a line has it; without an id its number is it.
   *
   * @param place where it stands, for messages
   * @param number its number, from 0
   * @throws Refusal it is none
   */
  static Document read(JsonNode value, String place, int number) throws Refusal {
    JsonNode id = value.get("id");
    JsonNode text = value.get("text");
    boolean known = id == null || id.isTextual() || id.isIntegralNumber();
    if (!known || text == null || !text.isTextual() || text.textValue().isBlank()) {
      throw Refusal.nonRetryable("%s must be {\"id\": …, \"text\": …}, the text not empty", place);
    }
    return new Document(id == null ? String.valueOf(number) : id.asText(), text.textValue());
  }
}
