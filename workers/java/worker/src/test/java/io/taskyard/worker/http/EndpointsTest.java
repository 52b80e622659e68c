package io.taskyard.worker.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.taskyard.v1.TaskStatus;
import io.taskyard.worker.settings.SettingsException;
import io.taskyard.worker.settings.WorkerSettings;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class EndpointsTest {
  private record Shown(String notReady) implements Figures {
    @Override
    public int activeAttempts() {
      return 3;
    }

    @Override
    public int unacknowledgedResults() {
      return 2;
    }

    @Override
    public boolean connected() {
      return notReady.isEmpty();
    }

    @Override
    public int streamsOpened() {
      return 5;
    }

    @Override
    public long droppedLogLines() {
      return 7;
    }
  }

  private final WorkerMetrics metrics = new WorkerMetrics();
  private final HttpClient client = HttpClient.newHttpClient();
  private Endpoints endpoints;

  @BeforeEach
  void take() {
    endpoints = Endpoints.take(settings("0"));
  }

  @AfterEach
  void close() {
    client.close();
    endpoints.close();
  }

  private static WorkerSettings settings(String port) {
    return WorkerSettings.load(Map.of("TASKYARD_BIND", "127.0.0.1", "TASKYARD_HTTP_PORT", port));
  }

  private HttpResponse<String> ask(String method, String path) throws Exception {
    URI uri = URI.create("http://127.0.0.1:" + endpoints.port() + path);
    HttpRequest request =
        HttpRequest.newBuilder(uri)
            .timeout(Duration.ofSeconds(10))
            .method(method, BodyPublishers.noBody())
            .build();
    return client.send(request, BodyHandlers.ofString());
  }

  private void start(String notReady) {
    Shown figures = new Shown(notReady);
    metrics.show(figures);
    endpoints.start(metrics, figures);
  }

  @Test
  void aWorkerWithAStreamIsReady() throws Exception {
    start("");
    assertEquals("ok\n", ask("GET", "/healthz").body());
    assertEquals(200, ask("GET", "/readyz?from=probe").statusCode());
  }

  @Test
  void oneWithoutSaysWhy() throws Exception {
    start("no stream to a scheduler");
    HttpResponse<String> answer = ask("GET", "/readyz");
    assertEquals(503, answer.statusCode());
    assertEquals("not ready: no stream to a scheduler\n", answer.body());
    assertEquals(200, ask("GET", "/healthz").statusCode());
  }

  @Test
  void figuresHaveTheNamesOfEveryWorker() throws Exception {
    metrics.ended("echo", TaskStatus.TASK_STATUS_SUCCESS, Duration.ofMillis(700));
    start("");
    String text = ask("GET", "/metrics").body();
    for (String line :
        new String[] {
          "workflow_task_duration_seconds_bucket{status=\"SUCCESS\",task_type=\"echo\",le=\"0.5\"} 0",
          "workflow_task_duration_seconds_bucket{status=\"SUCCESS\",task_type=\"echo\",le=\"1.0\"} 1",
          "workflow_task_duration_seconds_sum{status=\"SUCCESS\",task_type=\"echo\"} 0.7",
          "taskyard_worker_active_attempts 3.0",
          "taskyard_worker_unacknowledged_results 2.0",
          "taskyard_worker_connected 1.0",
          "taskyard_worker_streams_opened 5.0",
          "taskyard_worker_log_lines_dropped_total 7.0"
        }) {
      assertTrue(text.contains("\n" + line + "\n"), () -> line + " is not in\n" + text);
    }
  }

  @Test
  void headHasNoBody() throws Exception {
    start("");
    HttpResponse<String> answer = ask("HEAD", "/healthz");
    assertEquals("", answer.body());
    assertEquals(3, answer.headers().firstValueAsLong("Content-Length").orElseThrow());
  }

  @Test
  void otherMethodsAndPathsAreRefused() throws Exception {
    start("");
    assertEquals(405, ask("POST", "/healthz").statusCode());
    assertEquals(404, ask("GET", "/healthz/").statusCode());
  }

  @Test
  void aTakenPortIsToldWithTheWayOut() throws Exception {
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      String port = String.valueOf(taken.getLocalPort());
      SettingsException error =
          assertThrows(SettingsException.class, () -> Endpoints.take(settings(port)));
      assertTrue(error.getMessage().contains("TASKYARD_HTTP_PORT is " + port), error.getMessage());
      assertTrue(error.getMessage().endsWith("or 0 for a free one"), error.getMessage());
    }
  }
}
