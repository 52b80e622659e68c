package io.taskyard.worker.logs;

import io.taskyard.v1.LogChunk;
import io.taskyard.v1.LogLine;
import java.util.ArrayDeque;

/**
 * The lines of one attempt that wait, with the number of the first of them. Guarded by its book.
 */
final class AttemptLog {
  /** A line, and the bytes that it counts as. */
  record Sized(LogLine line, int size) {}

  final String taskId;
  final String token;
  final ArrayDeque<Sized> lines = new ArrayDeque<>();
  long first;
  long acceptedBytes;
  int dropped;
  boolean closed;
  boolean ended;

  AttemptLog(String taskId, String token) {
    this.taskId = taskId;
    this.token = token;
  }

  /** A chunk of the first lines, which closes on passing so many bytes. */
  LogChunk.Builder chunk(long bytes) {
    LogChunk.Builder chunk =
        LogChunk.newBuilder().setTaskId(taskId).setAttemptToken(token).setFirstLine(first);
    long size = 0;
    for (Sized one : lines) {
      if (size >= bytes) {
        break;
      }
      chunk.addLines(one.line);
      size += one.size;
    }
    return chunk;
  }
}
