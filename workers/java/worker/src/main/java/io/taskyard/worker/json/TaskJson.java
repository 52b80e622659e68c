package io.taskyard.worker.json;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.ser.std.StdSerializer;
import java.io.IOException;
import java.util.Map;

/** Reads and writes what tasks are given and return. */
public final class TaskJson {
  private static final JsonMapper MAPPER = mapper();

  private TaskJson() {}

  @SuppressWarnings("deprecation") // the feature alone does not reach values that are made as nodes
  private static JsonMapper mapper() {
    StreamReadConstraints limits =
        StreamReadConstraints.builder()
            .maxStringLength(Integer.MAX_VALUE)
            .maxNumberLength(100_000)
            .build();
    return JsonMapper.builder(JsonFactory.builder().streamReadConstraints(limits).build())
        .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
        .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
        .disable(JsonNodeFeature.STRIP_TRAILING_BIGDECIMAL_ZEROES)
        .nodeFactory(JsonNodeFactory.withExactBigDecimals(true))
        .addModule(
            new SimpleModule()
                .addSerializer(Double.class, new FiniteNumbers<>(Double.class))
                .addSerializer(Double.TYPE, new FiniteNumbers<>(Double.class))
                .addSerializer(Float.class, new FiniteNumbers<>(Float.class))
                .addSerializer(Float.TYPE, new FiniteNumbers<>(Float.class)))
        .build();
  }

  /**
   * The mapping that a handler sees: the typed input over the flat parameters.
   *
   * @param inputJson a JSON object; empty: there is none
   * @throws InvalidInputException it is none
   */
  public static ObjectNode input(String inputJson, Map<String, String> params)
      throws InvalidInputException {
    ObjectNode values = MAPPER.createObjectNode();
    params.forEach(values::put);
    if (!inputJson.isEmpty()) {
      values.setAll(object(inputJson));
    }
    return values;
  }

  private static ObjectNode object(String text) throws InvalidInputException {
    JsonNode typed;
    try {
      typed = MAPPER.readTree(text);
    } catch (JsonProcessingException error) {
      throw new InvalidInputException("the task's input is no JSON: " + error.getOriginalMessage());
    }
    if (typed instanceof ObjectNode object) {
      return object;
    }
    throw new InvalidInputException(
        "the task's input is JSON of the kind %s, but must be an object"
            .formatted(typed.getNodeType()));
  }

  /**
   * Any JSON value.
   *
   * @throws InvalidInputException the text is none
   */
  public static JsonNode value(byte[] text) throws InvalidInputException {
    try {
      return MAPPER.readTree(text);
    } catch (IOException error) {
      throw new InvalidInputException("its bytes are no JSON: " + error.getMessage());
    }
  }

  /**
   * What a handler returned, as JSON; empty for null.
   *
   * @throws JsonProcessingException JSON cannot hold it
   */
  public static String output(Object value) throws JsonProcessingException {
    return value == null ? "" : MAPPER.writeValueAsString(value);
  }

  /** Numbers that JSON has: neither infinite nor "not a number". */
  private static final class FiniteNumbers<T extends Number> extends StdSerializer<T> {
    FiniteNumbers(Class<T> type) {
      super(type);
    }

    @Override
    public void serialize(T value, JsonGenerator to, SerializerProvider provider)
        throws IOException {
      if (!Double.isFinite(value.doubleValue())) {
        throw JsonMappingException.from(to, "JSON has no number " + value);
      }
      if (value instanceof Float single) {
        to.writeNumber(single);
      } else {
        to.writeNumber(value.doubleValue());
      }
    }
  }
}
