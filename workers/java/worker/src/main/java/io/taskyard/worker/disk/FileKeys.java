package io.taskyard.worker.disk;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.taskyard.worker.logs.WorkerLog;
import io.taskyard.worker.work.KeyMemory;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * A key memory that outlives the process: one JSON line for each first success, bounded by count,
 * age and bytes. The file is written anew when it is opened and when half of it is old. Only
 * successes are remembered: what failed is meant to be tried again under the same key.
 */
public final class FileKeys implements KeyMemory {
  private static final int MAX_KEYS = 10_000;
  private static final long MAX_AGE_MS = Duration.ofHours(24).toMillis();
  private static final long MAX_CHARACTERS = 64L * 1024 * 1024;
  private static final JsonMapper JSON =
      JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

  private record Name(String tenant, String key) {}

  private record Remembered(String output, long atMs) {}

  /** A line of the file. */
  private record Line(String tenant, String key, long atMs, String output) {}

  private final Path file;
  private final WorkerLog log;
  private final LinkedHashMap<Name, Remembered> known = new LinkedHashMap<>();
  private final List<String> fresh = new ArrayList<>();
  private long characters;
  private long inFile;
  private boolean failing;

  /** Reads the file, if it is there. Throws when it cannot be used. */
  public FileKeys(Path file, WorkerLog log) throws IOException {
    this.file = file;
    this.log = log;
    if (Files.exists(file)) {
      try (Stream<String> lines = Files.lines(file, StandardCharsets.ISO_8859_1)) {
        lines.forEach(this::read);
      } catch (UncheckedIOException error) {
        throw error.getCause();
      }
    }
    rewrite();
  }

  private void read(String text) {
    try {
      Line line = JSON.readValue(text, Line.class);
      insert(new Name(line.tenant, line.key), new Remembered(line.output, line.atMs));
    } catch (JsonProcessingException torn) { // its key is forgotten, and its task may run again
      log.debug("a torn line of the key memory was left out", "path", file);
    }
  }

  @Override
  public Optional<String> find(String tenant, String key) {
    return Optional.ofNullable(known.get(new Name(tenant, key)))
        .filter(one -> System.currentTimeMillis() - one.atMs <= MAX_AGE_MS)
        .map(Remembered::output);
  }

  @Override
  public void remember(String tenant, String key, String output) {
    if (find(tenant, key).isEmpty()) {
      Remembered result = new Remembered(output, System.currentTimeMillis());
      insert(new Name(tenant, key), result);
      fresh.add(line(new Name(tenant, key), result));
    }
  }

  private void insert(Name name, Remembered result) {
    Remembered before = known.remove(name);
    characters += result.output.length() - (before == null ? 0 : before.output.length());
    known.put(name, result);
    long oldest = System.currentTimeMillis() - MAX_AGE_MS;
    while (!known.isEmpty()) {
      Map.Entry<Name, Remembered> first = known.firstEntry();
      if (known.size() <= MAX_KEYS
          && characters <= MAX_CHARACTERS
          && first.getValue().atMs >= oldest) {
        return;
      }
      characters -= first.getValue().output.length();
      known.pollFirstEntry();
    }
  }

  @Override
  public void save() {
    if (fresh.isEmpty()) {
      return;
    }
    try {
      Files.write(file, fresh, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
      inFile += fresh.size();
      fresh.clear();
      failing = false;
      if (inFile > 2L * MAX_KEYS) {
        rewrite();
      }
    } catch (IOException error) { // costs the memory its survival, not the worker its work
      fresh.subList(0, Math.max(0, fresh.size() - MAX_KEYS)).clear();
      if (!failing) {
        log.warning(
            "the memory of idempotency keys cannot be written", "path", file, "error", error);
      }
      failing = true;
    }
  }

  private void rewrite() throws IOException {
    Path whole = file.resolveSibling(file.getFileName() + ".new");
    Files.write(whole, known.entrySet().stream().map(FileKeys::line).toList());
    Files.move(whole, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    inFile = known.size();
  }

  private static String line(Map.Entry<Name, Remembered> entry) {
    return line(entry.getKey(), entry.getValue());
  }

  private static String line(Name name, Remembered result) {
    try {
      return JSON.writeValueAsString(new Line(name.tenant, name.key, result.atMs, result.output));
    } catch (JsonProcessingException error) {
      throw new IllegalStateException("a line of texts is always JSON", error);
    }
  }
}
