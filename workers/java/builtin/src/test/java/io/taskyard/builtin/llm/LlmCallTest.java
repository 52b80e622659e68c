package io.taskyard.builtin.llm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.taskyard.builtin.Tasks;
import io.taskyard.worker.TaskOutcome;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A model's endpoint is what cannot be had: a server on a real socket says what it would. */
final class LlmCallTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String KEY = "sk-s3cr3t-key";
  private static final String SCHEMA =
      "{\"type\": \"object\", \"properties\": {\"age\": {\"type\": \"integer\"}},"
          + " \"required\": [\"age\"]}";

  /** What the endpoint does with a request. */
  private interface Answer {
    void to(HttpExchange exchange) throws IOException;
  }

  private final BlockingQueue<Answer> answers = new LinkedBlockingQueue<>();
  private final BlockingQueue<JsonNode> requests = new LinkedBlockingQueue<>();
  private final BlockingQueue<String> keys = new LinkedBlockingQueue<>();
  private HttpServer server;
  private Tasks tasks;

  @BeforeEach
  void start() throws IOException {
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.setExecutor(Executors.newVirtualThreadPerTaskExecutor());
    server.createContext("/v1/chat/completions", this::answer);
    server.start();
    String address = "http://127.0.0.1:%d/v1".formatted(server.getAddress().getPort());
    tasks =
        new Tasks(
            Map.of(
                "TASKYARD_LLM_BASE_URL", address,
                "TASKYARD_LLM_API_KEY", KEY,
                "TASKYARD_LLM_MODEL", "default-model"));
  }

  @AfterEach
  void stop() {
    server.stop(0);
  }

  private void answer(HttpExchange exchange) throws IOException {
    requests.add(JSON.readTree(exchange.getRequestBody()));
    keys.add(String.valueOf(exchange.getRequestHeaders().getFirst("Authorization")));
    try (exchange) {
      answers.remove().to(exchange);
    }
  }

  @Test
  void aPromptIsAskedAsTheProtocolWantsItAndItsAnswerShownAsItComes() throws Exception {
    answers.add(says("To ", "be 名"));
    TaskOutcome.Success success =
        assertInstanceOf(
            TaskOutcome.Success.class,
            tasks.run(
                "llm_call",
                """
                {"prompt": "Speak", "system": "Be brief", "temperature": 0.5, "max_tokens": 9}\
                """));
    assertEquals(
        "{\"response\":\"To be 名\",\"tokens\":5,\"model\":\"tiny-1\",\"finish_reason\":\"stop\"}",
        JSON.writeValueAsString(success.output()));
    assertEquals(
        Map.of(
            "model", "tiny-1",
            "prompt_tokens", "3",
            "completion_tokens", "2",
            "total_tokens", "5"),
        success.metadata());
    assertEquals(List.of("To ", "be 名"), tasks.context.streamed);
    JsonNode sent = requests.remove();
    assertEquals("default-model", sent.get("model").textValue());
    assertEquals(0.5, sent.get("temperature").doubleValue());
    assertEquals(9, sent.get("max_tokens").intValue());
    assertTrue(sent.get("stream").booleanValue());
    assertEquals("Be brief", sent.get("messages").get(0).get("content").textValue());
    assertEquals("user", sent.get("messages").get(1).get("role").textValue());
    assertEquals("Bearer " + KEY, keys.remove());
  }

  @Test
  void withoutAnEndpointTheTypeIsNotOffered() {
    assertFalse(new Tasks().offers("llm_call"));
  }

  @Test
  void anAnswerFollowsTheSchemaOrIsAskedForOnceMore() throws Exception {
    answers.add(says("{\"age\": \"36\"}"));
    answers.add(says("```json\n{\"age\": 36}\n```"));
    JsonNode output = tasks.output("llm_call", withSchema(SCHEMA));
    assertEquals(36, output.get("response").get("age").intValue());
    assertEquals(10, output.get("tokens").intValue());
    JsonNode format = requests.remove().get("response_format");
    assertEquals("json_schema", format.get("type").textValue());
    assertEquals(JSON.readTree(SCHEMA), format.get("json_schema").get("schema"));
    JsonNode said = requests.remove().get("messages");
    assertEquals("{\"age\": \"36\"}", said.get(1).get("content").textValue());
    assertTrue(said.get(2).get("content").textValue().contains("age"), said.toString());
  }

  @Test
  void anAnswerThatNeverFollowsIsTriedAgainAndACutOneIsNot() throws Exception {
    answers.add(says("no"));
    answers.add(says("no"));
    IOException error =
        assertThrows(IOException.class, () -> tasks.run("llm_call", withSchema(SCHEMA)));
    assertTrue(error.getMessage().contains("also when asked again"), error.getMessage());
    answers.add(events(chunk("{\"age\"", "null"), chunk("", "\"length\""), "[DONE]"));
    String message = tasks.refusal("NON_RETRYABLE", "llm_call", withSchema(SCHEMA));
    assertTrue(message.contains("max_tokens"), message);
  }

  @ParameterizedTest
  @ValueSource(ints = {400, 401, 404, 422})
  void whatBlamesTheRequestIsNotTriedAgain(int status) throws Exception {
    answers.add(refuses(status, "no such thing, " + KEY));
    String message = tasks.refusal("NON_RETRYABLE", "llm_call", "{\"prompt\": \"Speak\"}");
    assertTrue(message.contains("was answered " + status), message);
    assertTrue(message.contains("no such thing"), message);
    assertFalse(message.contains(KEY), message);
    assertEquals(status == 401, message.contains("TASKYARD_LLM_API_KEY"), message);
    assertEquals(1, requests.size());
  }

  @ParameterizedTest
  @ValueSource(ints = {408, 429, 500, 503})
  void whatMayPassIsLeftToTheRetriesOfTheTask(int status) {
    answers.add(refuses(status, "busy"));
    IOException error =
        assertThrows(IOException.class, () -> tasks.run("llm_call", "{\"prompt\": \"Speak\"}"));
    assertTrue(error.getMessage().contains("was answered " + status), error.getMessage());
    assertEquals(1, requests.size());
  }

  @Test
  void anAccountWithoutCreditIsNotAskedAgain() throws Exception {
    answers.add(refuses(429, "insufficient_quota"));
    tasks.refusal("NON_RETRYABLE", "llm_call", "{\"prompt\": \"Speak\"}");
  }

  @Test
  void anAnswerThatIsCutOffIsTriedAgain() {
    answers.add(events(chunk("To ", "null")));
    assertThrows(IOException.class, () -> tasks.run("llm_call", "{\"prompt\": \"Speak\"}"));
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aCancelClosesTheConnection(boolean interrupted) throws Exception {
    CountDownLatch asked = new CountDownLatch(1);
    CountDownLatch closed = new CountDownLatch(1);
    answers.add(exchange -> talkUntilClosed(exchange, asked, closed));
    CompletableFuture<TaskOutcome> ended = new CompletableFuture<>();
    Thread thread = Thread.ofVirtual().start(() -> speak(ended));
    assertTrue(asked.await(20, TimeUnit.SECONDS));
    if (interrupted) {
      thread.interrupt();
    } else {
      tasks.context.cancel(); // what comes before the interrupt
    }
    ExecutionException error =
        assertThrows(ExecutionException.class, () -> ended.get(20, TimeUnit.SECONDS));
    assertInstanceOf(InterruptedException.class, error.getCause());
    assertTrue(closed.await(20, TimeUnit.SECONDS), "the endpoint was left talking");
  }

  @Test
  void whatCannotBeIsRefusedWithTheWayOut() throws Exception {
    assertRefused("prompt", "{}");
    assertRefused("correct its name", "{\"prompt\": \"a\", \"promt\": \"b\"}");
    assertRefused("from 0 to 2", "{\"prompt\": \"a\", \"temperature\": 2.5}");
    assertRefused("1 to 10000000", "{\"prompt\": \"a\", \"max_tokens\": 0}");
    assertRefused("must be an object", withSchema("3"));
    assertRefused("is no JSON schema", withSchema("{\"type\": \"nothing\"}"));
    assertRefused("lang=python", withSchema("{\"items\": {\"pattern\": \"(a+)+$\"}}"));
    assertTrue(requests.isEmpty());
  }

  private void assertRefused(String part, String input) throws Exception {
    String message = tasks.refusal(TaskOutcome.INVALID_INPUT, "llm_call", input);
    assertTrue(message.contains(part), message);
  }

  private void speak(CompletableFuture<TaskOutcome> ended) {
    try {
      ended.complete(tasks.run("llm_call", "{\"prompt\": \"Speak\"}"));
    } catch (Exception error) {
      ended.completeExceptionally(error);
    }
  }

  private static void talkUntilClosed(
      HttpExchange exchange, CountDownLatch asked, CountDownLatch closed) throws IOException {
    exchange.getResponseHeaders().add("Content-Type", "text/event-stream");
    exchange.sendResponseHeaders(200, 0);
    OutputStream out = exchange.getResponseBody();
    asked.countDown();
    try {
      while (true) {
        out.write(": still here\n\n".getBytes(StandardCharsets.UTF_8));
        out.flush();
      }
    } catch (IOException gone) {
      closed.countDown();
    }
  }

  private static String withSchema(String schema) {
    return "{\"prompt\": \"How old?\", \"response_schema\": %s}".formatted(schema);
  }

  private static Answer says(String... texts) {
    String[] events = new String[texts.length + 2];
    for (int at = 0; at < texts.length; at++) {
      events[at] = chunk(texts[at], "null");
    }
    events[texts.length] =
        chunk("", "\"stop\"")
            .replace(
                "\"choices\"",
                "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5},"
                    + "\"choices\"");
    events[texts.length + 1] = "[DONE]";
    return events(events);
  }

  private static String chunk(String text, String finish) {
    return "{\"id\":\"1\",\"model\":\"tiny-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%s},\"finish_reason\":%s}]}"
        .formatted(JSON.valueToTree(text), finish);
  }

  private static Answer events(String... events) {
    return exchange -> {
      exchange.getResponseHeaders().add("Content-Type", "text/event-stream");
      exchange.sendResponseHeaders(200, 0);
      for (String each : events) {
        exchange
            .getResponseBody()
            .write("data: %s\n\n".formatted(each).getBytes(StandardCharsets.UTF_8));
      }
    };
  }

  private static Answer refuses(int status, String message) {
    byte[] body =
        "{\"error\": {\"message\": \"%s\"}}".formatted(message).getBytes(StandardCharsets.UTF_8);
    return exchange -> {
      exchange.sendResponseHeaders(status, body.length);
      exchange.getResponseBody().write(body);
    };
  }
}
