package io.taskyard.worker.lanes;

import io.taskyard.worker.TaskOutcome;
import java.io.InterruptedIOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.channels.ClosedByInterruptException;
import java.util.concurrent.CancellationException;

/** What a handler threw, in words. */
public final class Failures {
  private Failures() {}

  /** An exception in one line: its class and what it says. */
  public static String describe(Throwable error) {
    String text = error.getMessage();
    String name = error.getClass().getSimpleName();
    return text == null || text.isBlank() ? name : name + ": " + text;
  }

  /** The stack trace, for the handler's author. */
  public static String stackTrace(Throwable error) {
    StringWriter text = new StringWriter();
    error.printStackTrace(new PrintWriter(text));
    return text.toString().stripTrailing();
  }

  /** Whether an exception tells that a thread was told to stop, whatever it was wrapped in. */
  public static boolean tellsStop(Throwable error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof InterruptedException
          || cause instanceof CancellationException
          || cause instanceof InterruptedIOException
          || cause instanceof ClosedByInterruptException) {
        return true;
      }
    }
    return false;
  }

  /** The message of a handler that says it was told to stop when it was not. */
  public static TaskOutcome.Failure notTold(String what) {
    return (TaskOutcome.Failure)
        TaskOutcome.failure("the handler " + what + ", though the task was not told to stop");
  }
}
