package io.taskyard.builtin.text;

import java.util.ArrayList;
import java.util.List;

/** The words and CJK runs of a text, and its terms: what keywords and summaries count. */
final class Words {
  /** Code points; a longer word is data (a hash, base64), no keyword. */
  private static final int LONGEST_TERM = 64;

  private static final String GOES_ON = "LDMFI";

  private Words() {}

  /**
   * A word, or a run of CJK characters.
   *
   * @param units of a word its key alone; of a run the key of each character with its marks
   * @param cjk whether it is a run
   * @param lettered whether a word has a letter; a number has none
   */
  record Token(List<String> units, boolean cjk, boolean lettered) {}

  /** The tokens of a part of a text, in order. */
  static List<Token> tokens(Reading text, int start, int end) {
    List<Token> found = new ArrayList<>();
    int at = text.find("LDC", start, end);
    while (at < end) {
      boolean cjk = text.classAt(at) == 'C';
      int after = cjk ? text.skip("CMFI", at + 1, end) : wordEnd(text, at, end);
      found.add(cjk ? run(text, at, after) : word(text, at, after));
      at = text.find("LDC", after, end);
    }
    return found;
  }

  /** What may be a keyword, in order, once for each occurrence. */
  static List<String> terms(Reading text, int start, int end) {
    List<String> found = new ArrayList<>();
    for (Token token : tokens(text, start, end)) {
      if (token.cjk()) {
        addCjkTerms(token.units(), text.tables(), found);
      } else if (token.lettered()) {
        addWord(token.units().getFirst(), text.tables(), found);
      }
    }
    return found;
  }

  /** The number of code points. */
  static int length(String text) {
    return text.codePointCount(0, text.length());
  }

  private static Token word(Reading text, int start, int end) {
    boolean lettered = text.find("L", start, end) < end;
    return new Token(List.of(text.key(start, end)), false, lettered);
  }

  private static Token run(Reading text, int start, int end) {
    List<String> units = new ArrayList<>();
    int at = start;
    while (at < end) {
      int after = text.skip("MFI", at + 1, end);
      units.add(text.key(at, after));
      at = after;
    }
    return new Token(units, true, false);
  }

  private static int wordEnd(Reading text, int start, int end) {
    int at = text.skip(GOES_ON, start, end);
    while (at + 1 < end && joins(text, at)) {
      at = text.skip(GOES_ON, at + 1, end);
    }
    return at;
  }

  /** Whether a joiner between two neighbours holds a word together. */
  private static boolean joins(Reading text, int at) {
    return switch (text.classAt(at)) {
      case 'A' -> text.is(at - 1, "LM") && text.is(at + 1, "L");
      case '.', ',' -> text.is(at - 1, "D") && text.is(at + 1, "D");
      case '_' -> text.is(at - 1, "LDM") && text.is(at + 1, "LD");
      default -> false;
    };
  }

  private static void addWord(String key, CharacterTables tables, List<String> found) {
    int length = length(key);
    if (length >= 2 && length <= LONGEST_TERM && !tables.isStopWord(key)) {
      found.add(key);
    }
  }

  private static void addCjkTerms(List<String> units, CharacterTables tables, List<String> found) {
    if (units.size() == 1) {
      String only = units.getFirst();
      if (!tables.isStopCharacter(only) && length(only) <= LONGEST_TERM) {
        found.add(only);
      }
      return;
    }
    for (int at = 1; at < units.size(); at++) {
      String left = units.get(at - 1);
      String right = units.get(at);
      boolean stopped = tables.isStopCharacter(left) || tables.isStopCharacter(right);
      String pair = left + right;
      if (!stopped && !tables.isStopWord(pair) && length(pair) <= LONGEST_TERM) {
        found.add(pair);
      }
    }
  }
}
