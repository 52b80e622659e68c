package io.taskyard.builtin.llm;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.networknt.schema.Schema;
import com.networknt.schema.SchemaLocation;
import com.networknt.schema.SchemaRegistry;
import com.networknt.schema.SpecificationVersion;
import io.taskyard.builtin.input.Fields;
import io.taskyard.builtin.input.Refusal;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A JSON schema that answers must follow. It is never fetched from elsewhere. */
final class AnswerSchema {
  // The comparison with these may need for ever, and nothing could stop it here.
  private static final Set<String> NOT_PLAIN =
      Set.of(
          "$ref",
          "$dynamicRef",
          "$recursiveRef",
          "$schema",
          "pattern",
          "patternProperties",
          "uniqueItems",
          "unevaluatedItems",
          "unevaluatedProperties");
  private static final Pattern FENCED = Pattern.compile("```\\w*\\n(.*)```", Pattern.DOTALL);
  private static final int FAULTS = 5;
  private static final ObjectMapper JSON =
      new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);
  private static final SchemaRegistry REGISTRY =
      SchemaRegistry.withDefaultDialect(SpecificationVersion.DRAFT_2020_12);

  /** An answer does not follow the schema; the message says why. */
  static final class Misfit extends Exception {
    private static final long serialVersionUID = 1L;

    Misfit(String message) {
      super(message);
    }
  }

  private final JsonNode source;
  private final Schema schema;

  private AnswerSchema(JsonNode source) {
    this.source = source;
    this.schema = REGISTRY.getSchema(source);
  }

  /**
   * Takes a schema.
   *
   * @throws Refusal it is none, or one that cannot be compared with here
   */
  static AnswerSchema of(JsonNode given) throws Refusal {
    if (!given.isObject()) {
      throw Refusal.invalid("'response_schema' is %s; it must be an object", Fields.shown(given));
    }
    for (String each : NOT_PLAIN) {
      if (given.findValue(each) != null) {
        throw Refusal.invalid(
            "'response_schema' has '%s', which a Java worker does not compare with; leave it out,"
                + " or select a worker with the label lang=python",
            each);
      }
    }
    var faults =
        REGISTRY
            .getSchema(SchemaLocation.of(SpecificationVersion.DRAFT_2020_12.getDialectId()))
            .validate(given);
    if (!faults.isEmpty()) {
      throw Refusal.invalid("'response_schema' is no JSON schema: %s", faults.getFirst());
    }
    return new AnswerSchema(given);
  }

  /** The schema as JSON. */
  String text() {
    return source.toString();
  }

  /**
   * The value of an answer.
   *
   * @throws Misfit it is no JSON, or does not follow
   */
  JsonNode read(String text) throws Misfit {
    JsonNode value = parsed(text);
    List<String> faults =
        schema.validate(value).stream().limit(FAULTS).map(Object::toString).toList();
    if (!faults.isEmpty()) {
      throw new Misfit(String.join("; ", faults));
    }
    return value;
  }

  private static JsonNode parsed(String text) throws Misfit {
    Matcher fenced = FENCED.matcher(text.strip());
    try {
      JsonNode value = JSON.readTree(fenced.matches() ? fenced.group(1) : text);
      if (!value.isMissingNode()) {
        return value;
      }
    } catch (JsonProcessingException error) {
      throw new Misfit("it is no JSON (%s)".formatted(error.getOriginalMessage()));
    }
    throw new Misfit("it is no JSON (it is empty)");
  }
}
