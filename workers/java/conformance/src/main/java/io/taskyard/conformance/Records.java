package io.taskyard.conformance;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** The file by which the kit counts executions. */
final class Records {
  private Records() {}

  /** Appends a line at once, so that a kill loses none. */
  static void add(String key, Object what) throws IOException {
    Path file = Path.of(System.getenv("TASKYARD_DATA"), "conformance-records");
    Files.writeString(
        file, key + " " + what + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
  }
}
