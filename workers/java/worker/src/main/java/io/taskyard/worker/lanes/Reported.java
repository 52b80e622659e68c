package io.taskyard.worker.lanes;

import io.taskyard.worker.text.Utf8;

/** The rules of what a handler reports, told to it at once. */
public final class Reported {
  private static final int MAX_MESSAGE = 1_000;
  private static final int MAX_CHECKPOINT_BYTES = 256 * 1024;

  private Reported() {}

  /** Refuses a percentage that is none. */
  public static void checkPercent(double percent) {
    if (!(percent >= 0 && percent <= 100)) {
      throw new IllegalArgumentException(
          "progress is %s, but goes from 0 to 100".formatted(percent));
    }
  }

  /** A message of at most 1,000 characters. */
  public static String message(String message) {
    String valid = Utf8.valid(message);
    return valid.codePointCount(0, valid.length()) <= MAX_MESSAGE
        ? valid
        : valid.substring(0, valid.offsetByCodePoints(0, MAX_MESSAGE - 1)) + "…";
  }

  /** A checkpoint, unless it is too large. */
  public static String checkpoint(String state) {
    String valid = Utf8.valid(state);
    if (Utf8.size(valid) > MAX_CHECKPOINT_BYTES) {
      throw new IllegalArgumentException(
          "the checkpoint has %d bytes, but at most %d; store an artifact, and its URI here"
              .formatted(Utf8.size(valid), MAX_CHECKPOINT_BYTES));
    }
    return valid;
  }
}
