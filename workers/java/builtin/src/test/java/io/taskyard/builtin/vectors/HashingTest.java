package io.taskyard.builtin.vectors;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The vectors of `hashing-v1` are those of the golden vectors, whatever the language. */
final class HashingTest {
  private static final Path VECTORS =
      Path.of("../../../tests/conformance/embedding/hashing-v1.json");

  @TestFactory
  Stream<DynamicTest> goldenVectors() throws IOException {
    JsonNode cases = JsonLines.JSON.readTree(VECTORS.toFile()).get("cases");
    return StreamSupport.stream(cases.spliterator(), false)
        .map(each -> dynamicTest(each.get("name").asText(), () -> check(each)));
  }

  @Test
  void itsNamesSayHowLongItsVectorsAre() {
    assertEquals(256, Hashing.dimensionsOf("hashing-v1").orElseThrow());
    assertEquals(16, Hashing.dimensionsOf("hashing-v1-16").orElseThrow());
    for (String other : List.of("hashing-v1-15", "hashing-v1-4097", "hashing-v1-016", "hashing")) {
      assertTrue(Hashing.dimensionsOf(other).isEmpty(), other);
    }
  }

  private static void check(JsonNode each) throws InterruptedException {
    int dimensions = each.get("dimensions").intValue();
    Hashing model = new Hashing("hashing-v1-" + dimensions, dimensions);
    double[] vector = model.embed(List.of(each.get("text").textValue())).getFirst();
    for (int at = 0; at < dimensions; at++) {
      double wanted = each.get("vector").path(String.valueOf(at)).asDouble(0);
      assertEquals(wanted, vector[at], 1e-6, "dimension " + at);
    }
  }
}
