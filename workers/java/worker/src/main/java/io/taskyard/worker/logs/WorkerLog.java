package io.taskyard.worker.logs;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.taskyard.worker.settings.WorkerSettings.Level;
import java.io.PrintStream;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/** The worker's own log: JSON lines. Not the logs of tasks, which go to the scheduler. */
public final class WorkerLog {
  private static final JsonMapper JSON = new JsonMapper();

  private final PrintStream to;
  private final Level least;

  /**
   * Writes to a stream.
   *
   * @param to where lines go
   * @param least lines below this level are left out
   */
  public WorkerLog(PrintStream to, Level least) {
    this.to = to;
    this.least = least;
  }

  /** Logs what only helps to find a fault. Facts: names and values in turn. */
  public void debug(String event, Object... facts) {
    write(Level.DEBUG, event, facts);
  }

  /** Logs what happened. */
  public void info(String event, Object... facts) {
    write(Level.INFO, event, facts);
  }

  /** Logs what may need a look. */
  public void warning(String event, Object... facts) {
    write(Level.WARNING, event, facts);
  }

  /** Logs what went wrong. */
  public void error(String event, Object... facts) {
    write(Level.ERROR, event, facts);
  }

  private void write(Level level, String event, Object... facts) {
    if (level.compareTo(least) < 0) {
      return;
    }
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("component", "worker");
    for (int at = 0; at + 1 < facts.length; at += 2) {
      line.put(String.valueOf(facts[at]), plain(facts[at + 1]));
    }
    line.put("event", event);
    line.put("level", level.name().toLowerCase(Locale.ROOT));
    line.put("time", Instant.now().truncatedTo(ChronoUnit.MICROS).toString());
    to.println(json(line));
  }

  private static Object plain(Object fact) {
    boolean kept = fact instanceof Number || fact instanceof Boolean || fact instanceof Iterable;
    return kept ? fact : String.valueOf(fact);
  }

  private static String json(Map<String, Object> line) {
    try {
      return JSON.writeValueAsString(line);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException("a log line of plain values is always JSON", error);
    }
  }
}
