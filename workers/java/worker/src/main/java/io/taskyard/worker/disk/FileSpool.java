package io.taskyard.worker.disk;

import io.taskyard.v1.AssignTaskRequest;
import io.taskyard.v1.TaskResult;
import io.taskyard.worker.logs.WorkerLog;
import io.taskyard.worker.work.ResultSpool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * The spool on disk: segments that are only appended to. Not flushed to the platter: it outlives a
 * killed process, not a power cut; a result lost so is made again by another attempt. When the disk
 * is full, records stay in memory until there is room.
 */
public final class FileSpool implements ResultSpool {
  private static final long SEGMENT_BYTES = 4L * 1024 * 1024;
  private static final long CLEAR_INTERVAL = Duration.ofSeconds(1).toNanos();

  private record Waiting(byte[] frame, long last) {}

  private final Path directory;
  private final WorkerLog log;
  private final ArrayDeque<Segment> old = new ArrayDeque<>();
  private final ArrayDeque<Waiting> waiting = new ArrayDeque<>(); // without room on the disk
  private long next = 1;
  private Segment active;
  private long cleared = System.nanoTime() - CLEAR_INTERVAL;

  /** Uses a directory, which is made when it is missing. Throws when it cannot be used. */
  public FileSpool(Path directory, WorkerLog log) throws IOException {
    this.directory = directory;
    this.log = log;
    Files.createDirectories(directory);
    try (Stream<Path> files = Files.list(directory)) {
      for (Path file : files.filter(path -> path.toString().endsWith(".spool")).sorted().toList()) {
        old.add(new Segment(file));
        next = Long.parseLong(file.getFileName().toString().replace(".spool", "")) + 1;
      }
    }
    active = openSegment();
  }

  private Segment openSegment() {
    return new Segment(directory.resolve("%012d.spool".formatted(next++)));
  }

  @Override
  public List<TaskResult> replay() {
    Map<String, TaskResult> results = new LinkedHashMap<>();
    for (Segment segment : old) {
      try {
        segment.read().forEach(result -> results.put(result.getAttemptToken(), result));
      } catch (IOException error) {
        log.error(
            "results of an earlier life cannot be read; their tasks run again", "error", error);
      }
      segment.last = results.size();
    }
    return new ArrayList<>(results.values());
  }

  @Override
  public void append(List<TaskResult> results, long last) {
    byte[] frame = AssignTaskRequest.newBuilder().addAllResults(results).build().toByteArray();
    boolean wasFull = !waiting.isEmpty();
    waiting.add(new Waiting(frame, last));
    try {
      while (!waiting.isEmpty()) {
        write(waiting.peek());
        waiting.poll();
      }
      if (wasFull) {
        log.warning("the result spool is written again", "path", directory);
      }
    } catch (IOException error) {
      if (!wasFull) {
        log.warning(
            "the result spool cannot be written; results stay in memory and would be lost with this process,"
                + " and their tasks run again: make room on the disk",
            "path",
            directory,
            "error",
            error);
      }
    }
  }

  private void write(Waiting record) throws IOException {
    if (active.size() >= SEGMENT_BYTES) {
      old.add(active);
      active = openSegment();
    }
    active.append(record.frame);
    active.last = record.last;
  }

  @Override
  public void trim(long oldest) {
    while (!waiting.isEmpty() && waiting.peek().last < oldest) {
      waiting.poll();
    }
    while (!old.isEmpty() && old.peek().last < oldest) {
      delete(old.poll());
    }
  }

  @Override
  public void clear(boolean now) {
    waiting.clear();
    long time = System.nanoTime();
    boolean idle = active.size() == 0 && old.isEmpty();
    boolean putOff = active.size() < SEGMENT_BYTES && time - cleared < CLEAR_INTERVAL;
    if (idle || (!now && putOff)) {
      return;
    }
    cleared = time;
    while (!old.isEmpty()) {
      delete(old.poll());
    }
    try {
      active.empty();
    } catch (IOException error) {
      log.warning("the result spool cannot be emptied", "path", directory, "error", error);
    }
  }

  private void delete(Segment segment) {
    try {
      segment.delete();
    } catch (IOException error) { // reported again at the next start, which the scheduler notices
      log.warning("a segment of the result spool cannot be removed", "error", error);
    }
  }

  @Override
  public void close() {
    if (active.size() == 0) {
      delete(active);
    }
  }
}
