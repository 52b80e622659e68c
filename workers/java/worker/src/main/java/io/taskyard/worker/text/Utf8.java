package io.taskyard.worker.text;

import java.nio.charset.StandardCharsets;

/** What a text is in UTF-8. */
public final class Utf8 {
  private static final char REPLACEMENT = '\uFFFD';

  private Utf8() {}

  /** How many bytes a valid text has. */
  public static int size(String text) {
    int size = 0;
    for (int at = 0; at < text.length(); at++) {
      char unit = text.charAt(at);
      if (unit < 0x80) {
        size++;
      } else if (unit < 0x800) {
        size += 2;
      } else if (Character.isHighSurrogate(unit)) {
        size += 4;
        at++;
      } else {
        size += 3;
      }
    }
    return size;
  }

  /**
   * The text with each half of a surrogate pair replaced that stands alone: protobuf takes none.
   */
  public static String valid(String text) {
    StringBuilder mended = null;
    for (int at = 0; at < text.length(); at++) {
      if (isPair(text, at)) {
        at++;
      } else if (Character.isSurrogate(text.charAt(at))) {
        mended = mended == null ? new StringBuilder(text) : mended;
        mended.setCharAt(at, REPLACEMENT);
      }
    }
    return mended == null ? text : mended.toString();
  }

  private static boolean isPair(String text, int at) {
    return at + 1 < text.length()
        && Character.isSurrogatePair(text.charAt(at), text.charAt(at + 1));
  }

  /** A valid text of at most so many bytes; one that was cut ends with the mark. */
  public static String cut(String text, int bytes, String mark) {
    String whole = valid(text);
    if (whole.length() * 4L <= bytes || size(whole) <= bytes) {
      return whole;
    }
    return whole.substring(0, fitting(whole, bytes - size(mark))) + mark;
  }

  /** How many chars of a valid text, whole characters, have at most so many bytes. */
  private static int fitting(String text, int bytes) {
    int size = 0;
    int at = 0;
    while (at < text.length()) {
      int character = text.codePointAt(at);
      int needed = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
      if (size + needed > bytes) {
        break;
      }
      size += needed;
      at += Character.charCount(character);
    }
    return at;
  }

  /** The bytes of a text. */
  public static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
