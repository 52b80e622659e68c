package io.taskyard.worker.session;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * How busy the host is, for people.
 *
 * @param average of one minute; 0: not known
 * @param memoryMb resident memory of this process in MiB
 */
record Load(double average, long memoryMb) {
  private static final Path PAGES = Path.of("/proc/self/statm");
  private static final long PAGE_BYTES = 4096;
  private static final long MIB = 1024 * 1024;

  static Load now() {
    double average = ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage();
    return new Load(Math.max(0, average), memory());
  }

  private static long memory() {
    try {
      return Long.parseLong(Files.readString(PAGES).split(" ")[1]) * PAGE_BYTES / MIB;
    } catch (IOException elsewhere) { // not Linux: the heap is what is known
      Runtime runtime = Runtime.getRuntime();
      return (runtime.totalMemory() - runtime.freeMemory()) / MIB;
    }
  }
}
