package io.taskyard.builtin.text;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Path;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Every operation gives what the golden vectors say, byte for byte. */
final class GoldenVectorsTest {
  private static final Path VECTORS = Path.of("../../../tests/conformance/text");
  private static final ObjectMapper JSON = new ObjectMapper();

  @TestFactory
  Stream<DynamicTest> operations() {
    return Stream.of("clean", "keywords", "split", "statistics", "summarize")
        .map(GoldenVectorsTest::file)
        .flatMap(file -> cases(file).map(each -> operation(file.get("operation"), each)));
  }

  @TestFactory
  Stream<DynamicTest> inputs() {
    return cases(file("inputs")).map(GoldenVectorsTest::input);
  }

  private static DynamicTest operation(JsonNode operation, JsonNode each) {
    String name = operation.asText() + ": " + each.get("name").asText();
    ObjectNode input = each.get("options").deepCopy();
    input.set("operation", operation);
    input.set("text", each.get("text"));
    return dynamicTest(name, () -> assertEquals(each.get("result").toString(), result(input)));
  }

  private static DynamicTest input(JsonNode each) {
    ObjectNode input = (ObjectNode) each.get("input");
    String name = each.get("name").asText();
    if (each.has("error_field")) {
      return dynamicTest(
          name,
          () -> {
            var error = assertThrows(TextInputException.class, () -> TextOperation.process(input));
            assertEquals(each.get("error_field").asText(), error.field());
          });
    }
    return dynamicTest(
        name, () -> assertEquals(each.get("output").get("result").toString(), result(input)));
  }

  private static String result(ObjectNode input) {
    return JSON.valueToTree(TextOperation.process(input).get("result")).toString();
  }

  private static Stream<JsonNode> cases(JsonNode file) {
    return StreamSupport.stream(file.get("cases").spliterator(), false);
  }

  private static JsonNode file(String name) {
    try {
      return JSON.readTree(VECTORS.resolve(name + ".json").toFile());
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }
}
