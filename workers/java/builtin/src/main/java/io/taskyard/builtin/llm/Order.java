package io.taskyard.builtin.llm;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.langchain4j.data.message.ChatMessage;
import dev.langchain4j.data.message.SystemMessage;
import dev.langchain4j.data.message.UserMessage;
import io.taskyard.builtin.input.Fields;
import io.taskyard.builtin.input.Refusal;
import java.util.ArrayList;
import java.util.List;

/**
 * A checked input.
 *
 * @param messages what is said
 * @param model who is to answer
 * @param temperature null: the endpoint's
 * @param maxTokens null: the endpoint's
 * @param schema that the answer must follow; null: any
 */
record Order(
    List<ChatMessage> messages,
    String model,
    Double temperature,
    Integer maxTokens,
    AnswerSchema schema) {
  private static final List<String> KNOWN =
      List.of("prompt", "model", "system", "temperature", "max_tokens", "response_schema");
  private static final int MOST_TOKENS = 10_000_000;

  /** Reads it. */
  static Order of(ObjectNode values, String preset) throws Refusal {
    Fields fields = Fields.of("llm_call", values, KNOWN);
    List<ChatMessage> messages = new ArrayList<>();
    if (fields.has("system")) {
      messages.add(SystemMessage.from(fields.text("system")));
    }
    messages.add(UserMessage.from(fields.text("prompt")));
    JsonNode schema = fields.get("response_schema");
    return new Order(
        messages,
        fields.text("model", preset),
        temperature(fields.get("temperature")),
        fields.has("max_tokens") ? fields.integer("max_tokens", 1, 1, MOST_TOKENS) : null,
        schema == null ? null : AnswerSchema.of(schema));
  }

  private static Double temperature(JsonNode value) throws Refusal {
    if (value == null) {
      return null;
    }
    String text = value.isNumber() || value.isTextual() ? value.asText() : "";
    boolean number = text.matches("\\d{1,9}(\\.\\d{1,20})?");
    if (!number || Double.parseDouble(text) > 2) {
      throw Refusal.invalid(
          "'temperature' is %s; it must be a number from 0 to 2", Fields.shown(value));
    }
    return Double.valueOf(text);
  }
}
