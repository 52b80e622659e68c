package io.taskyard.builtin.text;

import com.fasterxml.jackson.databind.JsonNode;

/**
 * A yes-or-no option.
 *
 * @param name what it is called
 * @param preset what it is when it is left out
 */
record FlagOption(String name, boolean preset) {

  /**
   * Reads it from the options that were given.
   *
   * @throws TextInputException it is neither a JSON boolean nor the text "true" or "false"
   */
  boolean read(Options given) {
    JsonNode value = given.get(name);
    if (value == null) {
      return preset;
    }
    String text = value.isBoolean() || value.isTextual() ? value.asText() : "";
    if (!text.equals("true") && !text.equals("false")) {
      String remedy = "Give one of the two, or leave it out.";
      throw new TextInputException(name, value, "must be true or false", remedy);
    }
    return text.equals("true");
  }
}
