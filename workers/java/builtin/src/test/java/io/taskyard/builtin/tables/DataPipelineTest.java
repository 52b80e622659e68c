package io.taskyard.builtin.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import io.taskyard.builtin.Tasks;
import io.taskyard.worker.TaskOutcome;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tables out of artifacts, into an artifact; by the database itself. */
final class DataPipelineTest {
  private static final String ORDERS =
      """
      id,customer,amount
      1,ann,10.5
      2,bob,4
      3,ann,1.5
      4,"o'neil, 名",7
      """;
  private static final String CUSTOMERS =
      """
      {"customer": "ann", "city": "Ulm"}
      {"customer": "bob", "city": "Köln"}
      """;

  private final Tasks tasks = new Tasks();
  private final String orders = tasks.context.store(ORDERS);
  private final String customers = tasks.context.store(CUSTOMERS);

  @Test
  void aTableGoesThroughAllSteps() throws Exception {
    JsonNode output =
        pipeline(
            orders,
            """
            [{"filter": "amount > 2"},
             {"join": {"source": "%s", "on": ["customer"], "how": "left"}},
             {"project": {"city": "coalesce(city, '?')", "cents": "CAST(amount * 100 AS INTEGER)"}},
             {"aggregate": {"by": ["city"], "values": {"n": "count(*)", "cents": "sum(cents)"}}}]\
            """
                .formatted(customers),
            "csv");
    assertEquals(3, output.get("rows").intValue());
    assertEquals("[\"city\",\"n\",\"cents\"]", output.get("columns").toString());
    assertEquals("city,n,cents\n?,1,700\nKöln,1,400\nUlm,1,1050\n", text(output));
  }

  @Test
  void aTableWithoutStepsKeepsItsFormat() throws Exception {
    JsonNode output = tasks.output("data_pipeline", "{\"source\": \"%s\"}".formatted(customers));
    assertEquals(
        "{\"customer\":\"ann\",\"city\":\"Ulm\"}\n{\"customer\":\"bob\",\"city\":\"Köln\"}\n",
        text(output));
  }

  @ParameterizedTest
  @ValueSource(strings = {"csv", "jsonl", "parquet"})
  void whatIsWrittenCanBeReadAgain(String format) throws Exception {
    JsonNode written = pipeline(orders, "[]", format);
    byte[] bytes = tasks.context.stored.get(written.get("artifact").textValue());
    assertEquals(
        format.equals("parquet"),
        new String(bytes, 0, 4, StandardCharsets.ISO_8859_1).equals("PAR1"));
    JsonNode again =
        pipeline(
            written.get("artifact").textValue(),
            "[{\"filter\": \"id = 4\"}, {\"project\": [\"customer\", \"amount\"]}]",
            "jsonl");
    assertEquals("{\"customer\":\"o'neil, 名\",\"amount\":7.0}\n", text(again));
  }

  @Test
  void anInnerJoinLeavesOutWhatHasNoPartnerAndAggregationNeedsNoGroups() throws Exception {
    JsonNode output =
        pipeline(
            orders,
            """
            [{"join": {"source": "%s", "on": ["customer"]}},
             {"aggregate": {"values": {"total": "sum(amount)"}}}]\
            """
                .formatted(customers),
            "csv");
    assertEquals("total\n16.0\n", text(output));
  }

  @Test
  void theSqlOfATaskReachesNoFileAndNoNetwork(@TempDir Path folder) throws Exception {
    Path secret = Files.writeString(folder.resolve("secret.csv"), "a\n1\n");
    for (String reaching :
        new String[] {
          "(SELECT count(*) FROM read_csv('%s')) > 0".formatted(secret),
          "(SELECT count(*) FROM read_text('%s')) > 0".formatted(secret),
          "(SELECT count(*) FROM '%s') > 0".formatted(secret),
          "(SELECT count(*) FROM read_csv('https://127.0.0.1:1/x')) > 0",
          "true); COPY (SELECT 1) TO '%s/written'; SELECT (true".formatted(folder),
          "true); SET enable_external_access = true; SELECT (true",
          "true); INSTALL httpfs; SELECT (true",
          "true); ATTACH '%s/other.db'; SELECT (true".formatted(folder)
        }) {
      TaskOutcome outcome =
          tasks.run(
              "data_pipeline",
              "{\"source\": \"%s\", \"steps\": [{\"filter\": \"%s\"}]}"
                  .formatted(orders, reaching));
      assertTrue(outcome instanceof TaskOutcome.Failure, reaching);
    }
    assertFalse(Files.exists(folder.resolve("written")));
    assertFalse(Files.exists(folder.resolve("other.db")));
  }

  @Test
  void whatCannotBeIsRefusedWithTheWayOut() throws Exception {
    assertRefused("correct its name", "\"step\": []");
    assertRefused("csv, jsonl or parquet", "\"format\": \"xlsx\"");
    assertRefused("one of filter, project, aggregate, join", "\"steps\": [{\"sort\": \"id\"}]");
    assertRefused("'steps[0].filter' is \"\"", "\"steps\": [{\"filter\": \"\"}]");
    assertRefused("inner or left", "\"steps\": [{\"join\": {\"how\": \"cross\"}}]");
    assertRefused(
        "'steps[0].aggregate.values'", "\"steps\": [{\"aggregate\": {\"by\": [\"id\"]}}]");
    assertRefused(
        "the columns here are id, customer, amount", "\"steps\": [{\"filter\": \"price > 1\"}]");
    String message =
        tasks.refusal(
            "NON_RETRYABLE",
            "data_pipeline",
            """
            {"source": "%s", "steps": [{"project": {"n": "CAST(customer AS INTEGER)"}}]}\
            """
                .formatted(orders));
    assertTrue(message.contains("ann"), message);
    message =
        tasks.refusal(
            "NON_RETRYABLE",
            "data_pipeline",
            "{\"source\": \"%s\", \"source_format\": \"parquet\"}".formatted(orders));
    assertTrue(message.contains("'source' cannot be read as parquet"), message);
    assertFalse(message.contains("taskyard-tables-"), message);
  }

  @Test
  void aCancelStopsTheDatabaseAndRemovesTheFiles() throws Exception {
    CompletableFuture<TaskOutcome> ended = new CompletableFuture<>();
    Thread thread =
        Thread.ofVirtual()
            .start(() -> {
              try {
                String endless = "(SELECT sum(sqrt(a.range)) FROM range(1000000000000) a) > id";
                ended.complete(
                    tasks.run(
                        "data_pipeline",
                        "{\"source\": \"%s\", \"steps\": [{\"filter\": \"%s\"}]}"
                            .formatted(orders, endless)));
              } catch (Exception error) {
                ended.completeExceptionally(error);
              }
            });
    awaitWriting(ended);
    thread.interrupt();
    ExecutionException error =
        assertThrows(ExecutionException.class, () -> ended.get(20, TimeUnit.SECONDS));
    assertTrue(error.getCause() instanceof InterruptedException, error.toString());
    assertEquals(0, databases().count());
  }

  /** Waits until the table is being written. */
  private static void awaitWriting(CompletableFuture<?> ended) {
    while (!ended.isDone() && databases().noneMatch(DataPipelineTest::isWriting)) {
      LockSupport.parkNanos(5_000_000); // a look at all threads stops them: not without a pause
    }
  }

  private static boolean isWriting(Thread thread) {
    List<String> methods =
        Stream.of(thread.getStackTrace()).map(StackTraceElement::getMethodName).toList();
    return methods.contains("write");
  }

  private static Stream<Thread> databases() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(each -> each.getName().equals("taskyard-tables"));
  }

  private void assertRefused(String part, String rest) throws Exception {
    String input = "{\"source\": \"%s\", %s}".formatted(orders, rest);
    String message = tasks.refusal(TaskOutcome.INVALID_INPUT, "data_pipeline", input);
    assertTrue(message.contains(part), message);
  }

  private JsonNode pipeline(String source, String steps, String format) throws Exception {
    return tasks.output(
        "data_pipeline",
        "{\"source\": \"%s\", \"steps\": %s, \"format\": \"%s\"}".formatted(source, steps, format));
  }

  private String text(JsonNode output) {
    return tasks.context.text(output.get("artifact").textValue());
  }
}
