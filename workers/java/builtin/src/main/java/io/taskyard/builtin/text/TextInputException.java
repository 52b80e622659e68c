package io.taskyard.builtin.text;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;

/** An input of a text operation breaks a rule; trying it again unchanged cannot help. */
public final class TextInputException extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private static final int SHOWN = 200;
  private static final JsonMapper ASCII =
      JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

  private final String field;

  /**
   * Says what was wrong.
   *
   * @param field name of the input or option
   * @param value what was given; null when nothing was
   * @param rule the rule that it breaks, one clause
   * @param remedy what to give instead, one sentence
   */
  TextInputException(String field, JsonNode value, String rule, String remedy) {
    super("text_process: %s is %s: %s. %s".formatted(field, shown(value), rule, remedy));
    this.field = field;
  }

  /** The name of the input or option that breaks a rule. */
  public String field() {
    return field;
  }

  private static String shown(JsonNode value) {
    try {
      String text = ASCII.writeValueAsString(value);
      return text.length() <= SHOWN ? text : text.substring(0, SHOWN) + "...";
    } catch (JsonProcessingException error) {
      return "a value that is no JSON";
    }
  }
}
