package io.taskyard.worker.logs;

import com.google.protobuf.Timestamp;
import io.taskyard.v1.LogChunk;
import io.taskyard.v1.LogChunkAck;
import io.taskyard.v1.LogLine;
import io.taskyard.worker.text.Utf8;
import io.taskyard.worker.work.AttemptLogs;
import io.taskyard.worker.work.Signal;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Log lines of attempts until the scheduler has them: numbered, bounded, each stored once. Writing
 * comes from any thread and never waits for the network.
 */
public final class LogBook implements AttemptLogs {
  private static final int MAX_LINE_BYTES = 64 * 1024;
  private static final long MAX_ATTEMPT_BYTES = 10L * 1024 * 1024;
  private static final long MAX_PENDING_BYTES = 64L * 1024 * 1024;
  private static final int MAX_CHUNKS = 1_000;
  private static final long MAX_CALL_BYTES = 1024 * 1024;
  private static final int PART_CHARACTERS = 16 * 1024;
  private static final int LINE_BYTES = 32; // what a line counts beside its text
  private static final String CUT = " … [line cut at 64 KiB]";
  private static final String FULL =
      "[log cut: this attempt has written 10 MiB; further lines are not kept]";

  private final Map<String, AttemptLog> logs = new LinkedHashMap<>();
  private final Set<String> restored = new HashSet<>();
  private final Signal waiting = new Signal(false);
  private final Signal empty = new Signal(true);
  private Runnable restoredSent = () -> {};
  private long pendingBytes;
  private long droppedLines;

  /** On while lines wait. */
  public Signal waiting() {
    return waiting;
  }

  /** On while none does. */
  public Signal empty() {
    return empty;
  }

  /** How many lines were not kept, because there were too many. */
  public synchronized long droppedLines() {
    return droppedLines;
  }

  @Override
  public void append(String taskId, String token, String stream, String level, String text) {
    List<LogLine> lines = new ArrayList<>();
    for (String line : text.split("\n", -1)) {
      lines.add(line(stream, level, Utf8.cut(line, MAX_LINE_BYTES, CUT), false));
    }
    add(taskId, token, lines);
  }

  @Override
  public void appendText(String taskId, String token, String stream, String text) {
    List<LogLine> lines = new ArrayList<>();
    String[] pieces = Utf8.valid(text).split("\n", -1);
    for (int number = 0; number < pieces.length; number++) {
      boolean last = number == pieces.length - 1;
      if (!last || !pieces[number].isEmpty()) {
        addParts(lines, stream, pieces[number], last);
      }
    }
    add(taskId, token, lines);
  }

  /** Text that goes on is parted, not cut. */
  private static void addParts(List<LogLine> to, String stream, String text, boolean goesOn) {
    int at = 0;
    while (text.length() - at > PART_CHARACTERS) {
      int end = at + PART_CHARACTERS;
      end -= Character.isHighSurrogate(text.charAt(end - 1)) ? 1 : 0;
      to.add(line(stream, "", text.substring(at, end), true));
      at = end;
    }
    to.add(line(stream, "", text.substring(at), goesOn));
  }

  private static LogLine line(String stream, String level, String text, boolean partial) {
    Instant now = Instant.now();
    return LogLine.newBuilder()
        .setStream(stream)
        .setLevel(level)
        .setText(text)
        .setPartial(partial)
        .setTime(Timestamp.newBuilder().setSeconds(now.getEpochSecond()).setNanos(now.getNano()))
        .build();
  }

  private synchronized void add(String taskId, String token, List<LogLine> lines) {
    AttemptLog log = logs.computeIfAbsent(token, ignored -> new AttemptLog(taskId, token));
    for (LogLine line : lines) {
      if (log.closed || log.acceptedBytes >= MAX_ATTEMPT_BYTES) {
        break;
      }
      keep(log, line);
    }
    tell();
  }

  private void keep(AttemptLog log, LogLine line) {
    if (pendingBytes + Utf8.size(line.getText()) + LINE_BYTES > MAX_PENDING_BYTES) {
      log.dropped++;
      droppedLines++;
      return;
    }
    if (log.dropped > 0) {
      warn(
          log,
          "[%d lines dropped: they came faster than the scheduler took them]"
              .formatted(log.dropped));
      log.dropped = 0;
    }
    put(log, line);
    if (log.acceptedBytes >= MAX_ATTEMPT_BYTES) {
      warn(log, FULL);
    }
  }

  private void warn(AttemptLog log, String text) {
    put(log, line("log", "WARNING", text, false));
  }

  private void put(AttemptLog log, LogLine line) {
    int size = Utf8.size(line.getText()) + LINE_BYTES;
    log.lines.add(new AttemptLog.Sized(line, size));
    log.acceptedBytes += size;
    pendingBytes += size;
  }

  private void tell() {
    waiting.set(pendingBytes > 0);
    empty.set(pendingBytes == 0);
  }

  @Override
  public synchronized void end(String token) {
    AttemptLog log = logs.get(token);
    if (log != null) {
      log.ended = true;
      letGo(log);
    }
  }

  /** Takes over the lines of an earlier life; `sent` is called once none of them waits. */
  public synchronized void restore(List<LogChunk> chunks, Runnable sent) {
    for (LogChunk chunk : chunks) {
      AttemptLog log = new AttemptLog(chunk.getTaskId(), chunk.getAttemptToken());
      log.first = chunk.getFirstLine();
      log.ended = true;
      chunk.getLinesList().forEach(line -> put(log, line));
      logs.put(log.token, log);
      restored.add(log.token);
    }
    restoredSent = sent;
    tell();
  }

  /** Every line that waits: what a worker that stops keeps for its next start. */
  public synchronized List<LogChunk> unsent() {
    return logs.values().stream()
        .filter(log -> !log.lines.isEmpty())
        .map(log -> log.chunk(Long.MAX_VALUE).build())
        .toList();
  }

  /** The next lines to send, as much as one call takes. They stay until `acknowledge`. */
  public synchronized List<LogChunk> chunks() {
    List<LogChunk> chunks = new ArrayList<>();
    long left = MAX_CALL_BYTES;
    for (AttemptLog log : logs.values()) {
      if (left <= 0 || chunks.size() >= MAX_CHUNKS) {
        break;
      }
      if (!log.lines.isEmpty()) {
        LogChunk chunk = log.chunk(left).build();
        chunks.add(chunk);
        left -= chunk.getSerializedSize();
      }
    }
    return chunks;
  }

  /** Lets go of the lines that the scheduler has. */
  public synchronized void acknowledge(LogChunkAck ack) {
    AttemptLog log = logs.get(ack.getAttemptToken());
    if (log == null) {
      return;
    }
    long stored = ack.getClosed() ? log.lines.size() : ack.getNextLine() - log.first;
    for (long number = 0; number < stored && !log.lines.isEmpty(); number++) {
      pendingBytes -= log.lines.poll().size();
    }
    // The scheduler's count holds, also when it is below ours: it has lost lines.
    log.first = ack.getNextLine();
    log.closed |= ack.getClosed();
    letGo(log);
    if (logs.remove(log.token) != null) { // to the end: a talkative one must not silence the others
      logs.put(log.token, log);
    }
    tell();
  }

  private void letGo(AttemptLog log) {
    if (log.ended && log.lines.isEmpty()) {
      logs.remove(log.token);
      if (restored.remove(log.token) && restored.isEmpty()) {
        restoredSent.run();
      }
    }
  }
}
