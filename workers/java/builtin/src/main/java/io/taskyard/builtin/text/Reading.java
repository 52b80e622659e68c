package io.taskyard.builtin.text;

import java.util.stream.IntStream;

/**
 * A text as the operations read it: its code points and, one for each, the letters of their
 * classes. All offsets are in code points.
 */
final class Reading {
  private static final int REPLACEMENT = 0xFFFD;

  private final int[] codePoints;
  private final char[] classes;
  private final CharacterTables tables;

  private Reading(int[] codePoints, CharacterTables tables) {
    this.codePoints = codePoints;
    this.tables = tables;
    classes = new char[codePoints.length];
    for (int at = 0; at < classes.length; at++) {
      classes[at] = tables.classOf(codePoints[at]);
    }
  }

  /** Reads a text; a surrogate without its other half becomes U+FFFD. */
  static Reading of(String text) {
    return new Reading(source(text), CharacterTables.PACKAGED);
  }

  private static int[] source(String text) {
    IntStream codes = text.codePoints();
    return codes.map(code -> isSurrogate(code) ? REPLACEMENT : code).toArray();
  }

  private static boolean isSurrogate(int code) {
    return code >= Character.MIN_SURROGATE && code <= Character.MAX_SURROGATE;
  }

  CharacterTables tables() {
    return tables;
  }

  int length() {
    return codePoints.length;
  }

  int codePoint(int at) {
    return codePoints[at];
  }

  char classAt(int at) {
    return classes[at];
  }

  /** Whether the class of what stands at an index is one of these. */
  boolean is(int at, String wanted) {
    return wanted.indexOf(classes[at]) >= 0;
  }

  /** How many code points are of one of these classes. */
  int count(String wanted) {
    return (int) IntStream.range(0, classes.length).filter(at -> is(at, wanted)).count();
  }

  /** The first index from `start` whose class is one of these; `end` when there is none. */
  int find(String wanted, int start, int end) {
    int at = start;
    while (at < end && !is(at, wanted)) {
      at++;
    }
    return at;
  }

  /** The first index from `start` whose class is none of these; `end` when there is none. */
  int skip(String unwanted, int start, int end) {
    int at = start;
    while (at < end && is(at, unwanted)) {
      at++;
    }
    return at;
  }

  /** `end` moved back over what is of these classes, as far as `start`. */
  int trim(String unwanted, int start, int end) {
    int at = end;
    while (at > start && is(at - 1, unwanted)) {
      at--;
    }
    return at;
  }

  /** A slice of the text. */
  String text(int start, int end) {
    return new String(codePoints, start, end - start);
  }

  /** A slice in lower case, without its format and invisible code points. */
  String key(int start, int end) {
    return keyOf(start, end, "FI");
  }

  /** A slice in lower case. */
  String lower(int start, int end) {
    return keyOf(start, end, "");
  }

  private String keyOf(int start, int end, String left) {
    StringBuilder key = new StringBuilder(end - start);
    for (int at = start; at < end; at++) {
      if (!is(at, left)) {
        key.appendCodePoint(tables.keyOf(codePoints[at]));
      }
    }
    return key.toString();
  }
}
