package io.taskyard.builtin.vectors;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import io.taskyard.builtin.Tasks;
import io.taskyard.worker.TaskOutcome;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Vectors, indexes of them, and what is found in these. */
final class VectorTasksTest {
  private static final String DOCUMENTS =
      """
      [{"id": "fish", "text": "A fish swims in the sea."},
       {"id": "bread", "text": "Bread is baked from flour."},
       {"id": "worker", "text": "A worker runs tasks for the scheduler."}]\
      """;

  private final Tasks tasks = new Tasks();

  @Test
  void theModelInProcessKnowsMeanings() throws Exception {
    JsonNode output =
        tasks.output(
            "embedding",
            """
            {"texts": ["The cat sat on the mat.", "A kitten rested on a rug.",
             "Quarterly revenue grew by nine percent."]}\
            """);
    assertEquals(384, output.get("dimensions").intValue());
    assertEquals("all-minilm-l6-v2", output.get("model").textValue());
    double near = cosine(output.get("vectors").get(0), output.get("vectors").get(1));
    double far = cosine(output.get("vectors").get(0), output.get("vectors").get(2));
    assertTrue(near > 0.4 && far < 0.2, near + " and " + far);
  }

  @ParameterizedTest
  @CsvSource({"hashing-v1,false", "hashing-v1,true", "all-minilm-l6-v2,false"})
  void whatWasIndexedIsFound(String model, boolean approximate) throws Exception {
    JsonNode index =
        tasks.output("index", "{\"documents\": %s, \"model\": \"%s\"}".formatted(DOCUMENTS, model));
    assertEquals(3, index.get("documents").intValue());
    JsonNode found =
        tasks.output(
            "search",
            "{\"index\": %s, \"query\": \"Which workers run a task?\", \"top_k\": 2, \"approximate\": %s}"
                .formatted(index.get("index"), approximate));
    assertEquals(model, found.get("model").textValue());
    assertEquals(2, found.get("hits").size());
    assertEquals("worker", found.get("hits").get(0).get("id").textValue());
  }

  @Test
  void documentsMayBeLinesOfAnArtifact() throws Exception {
    String uri = tasks.context.store("{\"text\": \"one fish\"}\n\n{\"id\": 7, \"text\": \"two\"}");
    JsonNode index =
        tasks.output(
            "index", "{\"documents\": \"%s\", \"model\": \"hashing-v1-16\"}".formatted(uri));
    String[] lines = tasks.context.text(index.get("index").textValue()).split("\n");
    assertEquals("{\"model\":\"hashing-v1-16\",\"dimensions\":16}", lines[0]);
    assertTrue(lines[1].startsWith("{\"id\":\"0\",\"text\":\"one fish\",\"vector\":["), lines[1]);
    assertTrue(lines[2].startsWith("{\"id\":\"7\","), lines[2]);
  }

  @Test
  void theApproximateSearchFindsNearlyWhatTheExactOneDoes() throws Exception {
    Random random = new Random(7);
    String index = tasks.context.store(manyVectors(random, 2000, 32));
    int same = 0;
    for (int question = 0; question < 20; question++) {
      String search = "{\"index\": \"%s\", \"vector\": [%s], \"top_k\": 10, \"approximate\": %s}";
      String vector = numbers(random, 32);
      JsonNode exact = tasks.output("search", search.formatted(index, vector, false)).get("hits");
      JsonNode near = tasks.output("search", search.formatted(index, vector, true)).get("hits");
      assertEquals(10, near.size());
      var wanted = exact.findValuesAsText("id");
      same += (int) near.findValuesAsText("id").stream().filter(wanted::contains).count();
      assertEquals(
          exact.get(0).get("score").doubleValue(), near.get(0).get("score").doubleValue(), 1e-5);
    }
    assertTrue(same >= 190, same + " of 200 were found");
  }

  @Test
  void whatCannotBeIsRefusedWithTheWayOut() throws Exception {
    String uri = tasks.context.store("{\"model\": \"hashing-v1-16\", \"dimensions\": 16}\nrubbish");
    String invalid = TaskOutcome.INVALID_INPUT;
    assertMessage("correct its name", invalid, "embedding", "{\"txt\": \"a\"}");
    assertMessage("exactly one", invalid, "embedding", "{\"text\": \"a\", \"texts\": [\"b\"]}");
    assertMessage("texts[1]", invalid, "embedding", "{\"texts\": [\"a\", \" \"]}");
    assertMessage(
        "16 to 4,096", invalid, "embedding", "{\"text\": \"a\", \"model\": \"hashing-v1-5\"}");
    assertMessage("does not have", invalid, "embedding", "{\"text\": \"a\", \"model\": \"gpt\"}");
    assertMessage("artifact://", invalid, "index", "{\"documents\": []}");
    assertMessage("documents[0]", "NON_RETRYABLE", "index", "{\"documents\": [{\"text\": 5}]}");
    assertMessage("artifact://", invalid, "search", "{\"index\": \"x\", \"query\": \"a\"}");
    String search = "{\"index\": \"" + uri + "\", ";
    assertMessage("from 1 to 1000", invalid, "search", search + "\"query\": \"a\", \"top_k\": 0}");
    assertMessage("of the same model", invalid, "search", search + "\"vector\": [1]}");
    assertMessage("do not mix", invalid, "search", search + "\"query\": \"a\", \"model\": \"b\"}");
    assertMessage("line 2", "NON_RETRYABLE", "search", search + "\"query\": \"a\"}");
    String none = "{\"index\": \"" + tasks.context.store("") + "\", \"query\": \"a\"}";
    assertMessage("line 1", "NON_RETRYABLE", "search", none);
  }

  private void assertMessage(String part, String kind, String type, String input) throws Exception {
    String message = tasks.refusal(kind, type, input);
    assertTrue(message.contains(part), message);
  }

  private static String manyVectors(Random random, int count, int dimensions) {
    String lines =
        IntStream.range(0, count)
            .mapToObj(at ->
                "{\"id\": \"%d\", \"text\": \"t\", \"vector\": [%s]}"
                    .formatted(at, numbers(random, dimensions)))
            .collect(Collectors.joining("\n"));
    return "{\"model\": \"m\", \"dimensions\": %d}\n%s".formatted(dimensions, lines);
  }

  private static String numbers(Random random, int count) {
    return random.doubles(count, -1, 1).mapToObj(Double::toString).collect(Collectors.joining(","));
  }

  private static double cosine(JsonNode one, JsonNode other) {
    double sum = 0;
    for (int at = 0; at < one.size(); at++) {
      sum += one.get(at).doubleValue() * other.get(at).doubleValue();
    }
    return sum;
  }
}
