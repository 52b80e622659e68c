package io.taskyard.worker.work;

/** Where the log lines of attempts go. From any thread. */
public interface AttemptLogs {
  /** Adds lines; a text with line ends becomes several. */
  void append(String taskId, String token, String stream, String level, String text);

  /** Adds text as it came: what has no line end is a partial line. */
  void appendText(String taskId, String token, String stream, String text);

  /** No more will come of this attempt. */
  void end(String token);
}
