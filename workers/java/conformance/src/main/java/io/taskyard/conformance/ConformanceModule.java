package io.taskyard.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.taskyard.worker.TaskContext;
import io.taskyard.worker.TaskInput;
import io.taskyard.worker.TaskModule;
import io.taskyard.worker.TaskOptions;
import io.taskyard.worker.TaskOutcome;
import io.taskyard.worker.TaskRegistry;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.security.DigestOutputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.locks.LockSupport;
import sun.misc.Signal;
import sun.misc.SignalHandler;

/** The kit's types. */
public final class ConformanceModule implements TaskModule {
  private static final JsonMapper JSON = new JsonMapper();
  private static final int PATTERN = 251;

  @Override
  public void addTo(TaskRegistry registry) {
    registry
        .add("conformance.echo", (input, context) -> TaskOutcome.success(input.values()))
        .add("conformance.sleep", ConformanceModule::sleep)
        .add("conformance.fail", ConformanceModule::fail)
        .add("conformance.record", ConformanceModule::record)
        .add("conformance.stubborn", ConformanceModule::stubborn)
        .add("conformance.log", ConformanceModule::log)
        .add("conformance.progress", ConformanceModule::progress)
        .add("conformance.checkpoint", ConformanceModule::checkpoint)
        .add("conformance.artifact", ConformanceModule::artifact)
        .add("conformance.large", ConformanceModule::large)
        .add("conformance.isolated", ConformanceModule::isolated, TaskOptions.ISOLATED)
        .add("conformance.defer", (input, context) -> new TaskOutcome.Deferred(Duration.ofDays(7)));
  }

  private static Duration seconds(TaskInput input) {
    return Duration.ofNanos((long) (input.values().path("seconds").asDouble() * 1e9));
  }

  private static TaskOutcome sleep(TaskInput input, TaskContext context)
      throws InterruptedException {
    Thread.sleep(seconds(input));
    return TaskOutcome.success(Map.of("slept_seconds", input.values().path("seconds")));
  }

  private static TaskOutcome fail(TaskInput input, TaskContext context) {
    int succeedFrom = input.values().path("succeed_from").asInt();
    if (succeedFrom > 0 && context.attempt() >= succeedFrom) {
      return TaskOutcome.success(Map.of("attempt", context.attempt()));
    }
    return TaskOutcome.failure(
        input.values().path("kind").asText(TaskOutcome.HANDLER_ERROR),
        input.values().path("message").asText("as it was told"));
  }

  private static TaskOutcome record(TaskInput input, TaskContext context)
      throws IOException, InterruptedException {
    String key = input.values().path("key").asText();
    Records.add(key, context.attempt());
    Thread.sleep(seconds(input));
    return TaskOutcome.success(Map.of("recorded", key));
  }

  private static TaskOutcome stubborn(TaskInput input, TaskContext context) {
    long end = System.nanoTime() + seconds(input).toNanos();
    for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
      Thread.interrupted(); // told to stop, it goes on: that is what it is for
      LockSupport.parkNanos(left);
    }
    return TaskOutcome.success(Map.of("stubborn", true));
  }

  private static TaskOutcome log(TaskInput input, TaskContext context) {
    int lines = input.values().path("lines").asInt();
    int length = input.values().path("bytes").asInt();
    for (int number = 0; number < lines; number++) {
      String line = input.values().path("text").asText("line") + " " + number;
      context.log(line + ".".repeat(Math.max(0, length - line.length())));
    }
    return TaskOutcome.success(Map.of("lines", lines));
  }

  private static TaskOutcome progress(TaskInput input, TaskContext context)
      throws InterruptedException {
    int steps = input.values().path("steps").asInt();
    for (int step = 1; step <= steps; step++) {
      context.progress(100.0 * step / steps, "step " + step);
      Thread.sleep(50);
    }
    return TaskOutcome.success(Map.of("steps", steps));
  }

  private static TaskOutcome checkpoint(TaskInput input, TaskContext context)
      throws IOException, InterruptedException {
    Optional<String> stored = context.checkpoint();
    if (stored.isPresent()) {
      JsonNode value = JSON.readTree(stored.get());
      return TaskOutcome.success(Map.of("checkpoint", value));
    }
    context.saveCheckpoint(input.values().path("value").toString());
    return TaskOutcome.failure("the checkpoint is stored");
  }

  private static TaskOutcome artifact(TaskInput input, TaskContext context)
      throws IOException, InterruptedException, NoSuchAlgorithmException {
    MessageDigest digest = MessageDigest.getInstance("SHA-256");
    if (input.values().has("artifact")) {
      OutputStream to = new DigestOutputStream(OutputStream.nullOutputStream(), digest);
      try (InputStream content =
          context.artifacts().open(input.values().get("artifact").asText())) {
        long size = content.transferTo(to);
        return TaskOutcome.success(Map.of("size", size, "sha256", hex(digest.digest())));
      }
    }
    byte[] made = pattern(input.values().path("make").asInt());
    String uri =
        context.artifacts().upload(new ByteArrayInputStream(made), "", "application/octet-stream");
    return TaskOutcome.success(Map.of("artifact", uri, "sha256", hex(digest.digest(made))));
  }

  private static String hex(byte[] bytes) {
    return HexFormat.of().formatHex(bytes);
  }

  private static byte[] pattern(int size) {
    byte[] bytes = new byte[size];
    for (int at = 0; at < size; at++) {
      bytes[at] = (byte) (at % PATTERN);
    }
    return bytes;
  }

  private static TaskOutcome large(TaskInput input, TaskContext context) {
    return TaskOutcome.success(Map.of("text", "x".repeat(input.values().path("bytes").asInt())));
  }

  private static TaskOutcome isolated(TaskInput input, TaskContext context)
      throws IOException, InterruptedException {
    Signal.handle(new Signal("TERM"), SignalHandler.SIG_IGN);
    long pid = ProcessHandle.current().pid();
    Records.add(input.values().path("key").asText(), pid);
    stubborn(input, context);
    return TaskOutcome.success(Map.of("pid", pid));
  }
}
