package io.taskyard.worker.http;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.prometheus.metrics.expositionformats.PrometheusTextFormatWriter;
import io.taskyard.worker.settings.SettingsException;
import io.taskyard.worker.settings.WorkerSettings;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.BindException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The worker's HTTP endpoints: /healthz (alive), /readyz (takes tasks), /metrics. GET and HEAD, one
 * request a connection. The port is taken when it is made, and answers once it is started.
 */
public final class Endpoints implements AutoCloseable {
  private static final int DEFAULT_PORT = 8080;
  private static final String TEXT = "text/plain; charset=utf-8";
  private static final PrometheusTextFormatWriter FORMAT =
      PrometheusTextFormatWriter.builder().setIncludeCreatedTimestamps(false).build();

  static { // who is slow or many does not hold the worker; read when the first server is made
    limit("sun.net.httpserver.maxReqTime", "5");
    limit("sun.net.httpserver.maxRspTime", "5");
    limit("jdk.httpserver.maxConnections", "100");
  }

  private record Answer(int status, String body, String type) {
    static Answer text(int status, String text) {
      return new Answer(status, text, TEXT);
    }
  }

  private final HttpServer server;
  private final ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor();

  private Endpoints(HttpServer server) {
    this.server = server;
  }

  private static void limit(String name, String value) {
    if (System.getProperty(name) == null) {
      System.setProperty(name, value);
    }
  }

  /**
   * Takes the port; the default one gives way to a free one.
   *
   * @throws SettingsException the address or the port cannot be had
   */
  public static Endpoints take(WorkerSettings settings) {
    int port = settings.httpPort().orElse(DEFAULT_PORT);
    try {
      return new Endpoints(listen(settings.bind(), port));
    } catch (BindException taken) {
      if (settings.httpPort().isPresent()) {
        throw refused(settings.bind(), port, taken);
      }
    } catch (IOException error) {
      throw refused(settings.bind(), port, error);
    }
    try {
      return new Endpoints(listen(settings.bind(), 0));
    } catch (IOException error) {
      throw refused(settings.bind(), 0, error);
    }
  }

  private static HttpServer listen(String bind, int port) throws IOException {
    InetSocketAddress address = new InetSocketAddress(bind, port);
    if (address.isUnresolved()) {
      throw new IOException("no host of that name is known");
    }
    return HttpServer.create(address, 0);
  }

  private static SettingsException refused(String bind, int port, IOException error) {
    return new SettingsException(
        ("TASKYARD_HTTP_PORT is %d, which cannot be bound on TASKYARD_BIND '%s': %s; give another,"
                + " or 0 for a free one")
            .formatted(port, bind, error.getMessage()));
  }

  /** The port that was taken. */
  public int port() {
    return server.getAddress().getPort();
  }

  /** Answers from now on. */
  public void start(WorkerMetrics metrics, Figures figures) {
    server.setExecutor(threads);
    server.createContext("/", exchange -> reply(exchange, metrics, figures));
    server.start();
  }

  private static void reply(HttpExchange exchange, WorkerMetrics metrics, Figures figures)
      throws IOException {
    try (exchange) {
      String method = exchange.getRequestMethod();
      Answer answer = answer(method, exchange.getRequestURI().getPath(), metrics, figures);
      byte[] body = answer.body.getBytes(StandardCharsets.UTF_8);
      exchange.getResponseHeaders().set("Content-Type", answer.type);
      exchange.getResponseHeaders().set("Connection", "close");
      if (method.equals("HEAD")) {
        exchange.getResponseHeaders().set("Content-Length", String.valueOf(body.length));
        exchange.sendResponseHeaders(answer.status, -1);
      } else {
        exchange.sendResponseHeaders(answer.status, body.length);
        exchange.getResponseBody().write(body);
      }
    }
  }

  private static Answer answer(String method, String path, WorkerMetrics metrics, Figures figures)
      throws IOException {
    if (!method.equals("GET") && !method.equals("HEAD")) {
      return Answer.text(405, "only GET and HEAD are served here\n");
    }
    return switch (path == null ? "" : path) {
      case "/healthz" -> Answer.text(200, "ok\n");
      case "/readyz" -> readiness(figures.notReady());
      case "/metrics" -> new Answer(200, shown(metrics), FORMAT.getContentType());
      default -> Answer.text(404, "served here: /healthz, /readyz, /metrics\n");
    };
  }

  private static Answer readiness(String reason) {
    return reason.isEmpty()
        ? Answer.text(200, "ok\n")
        : Answer.text(503, "not ready: " + reason + "\n");
  }

  private static String shown(WorkerMetrics metrics) throws IOException {
    ByteArrayOutputStream text = new ByteArrayOutputStream();
    FORMAT.write(text, metrics.registry().scrape());
    return text.toString(StandardCharsets.UTF_8);
  }

  @Override
  public void close() {
    server.stop(0);
    threads.shutdownNow();
  }
}
