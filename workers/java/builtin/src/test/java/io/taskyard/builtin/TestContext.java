package io.taskyard.builtin;

import io.taskyard.worker.Artifacts;
import io.taskyard.worker.TaskContext;
import java.io.ByteArrayInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** An attempt of a test: what it logs, streams and stores can be looked at. */
public final class TestContext implements TaskContext, Artifacts {
  /** The artifacts, by URI. */
  public final Map<String, byte[]> stored = new HashMap<>();

  /** What was streamed to whoever watches, piece by piece. */
  public final List<String> streamed = new ArrayList<>();

  /** The lines of its log. */
  public final List<String> logged = new ArrayList<>();

  private final List<Runnable> onCancel = new ArrayList<>();
  private boolean cancelled;

  /** Stores a text; returns its URI. */
  public String store(String text) {
    String uri = "artifact://%036d".formatted(stored.size());
    stored.put(uri, text.getBytes(StandardCharsets.UTF_8));
    return uri;
  }

  /** An artifact as a text. */
  public String text(String uri) {
    return new String(stored.get(uri), StandardCharsets.UTF_8);
  }

  /** Tells it to stop, but for the interrupt. */
  public void cancel() {
    cancelled = true;
    onCancel.forEach(Runnable::run);
  }

  @Override
  public InputStream open(String uri) throws IOException {
    if (!stored.containsKey(uri)) {
      throw new FileNotFoundException(uri);
    }
    return new ByteArrayInputStream(stored.get(uri));
  }

  @Override
  public void download(String uri, Path to) throws IOException {
    Files.write(to, open(uri).readAllBytes());
  }

  @Override
  public String upload(InputStream content, String name, String mediaType) throws IOException {
    String uri = store("");
    stored.put(uri, content.readAllBytes());
    return uri;
  }

  @Override
  public Artifacts artifacts() {
    return this;
  }

  @Override
  public String taskId() {
    return "018f3b5e-7c1a-7abc-9def-0123456789ab";
  }

  @Override
  public String taskType() {
    return "test";
  }

  @Override
  public int attempt() {
    return 1;
  }

  @Override
  public String tenant() {
    return "default";
  }

  @Override
  public Optional<String> runId() {
    return Optional.empty();
  }

  @Override
  public Optional<String> stepId() {
    return Optional.empty();
  }

  @Override
  public Optional<Duration> timeout() {
    return Optional.empty();
  }

  @Override
  public Optional<String> traceparent() {
    return Optional.empty();
  }

  @Override
  public String completionToken() {
    return "token";
  }

  @Override
  public boolean isCancelled() {
    return cancelled;
  }

  @Override
  public void onCancel(Runnable action) {
    onCancel.add(action);
  }

  @Override
  public void log(String line) {
    logged.add(line);
  }

  @Override
  public void stream(String text) {
    streamed.add(text);
  }

  @Override
  public void progress(double percent, String message) {}

  @Override
  public Optional<String> checkpoint() {
    return Optional.empty();
  }

  @Override
  public void saveCheckpoint(String state) {}
}
