package io.taskyard.builtin.text;

import java.util.ArrayList;
import java.util.List;

/** Where the sentences of a text begin and end, for Latin and CJK punctuation. */
final class Segments {
  /** The classes that are white space. */
  static final String SPACE = "SRN";

  private static final int LONGEST_ABBREVIATION = 12;
  private static final String LINE_END = "RN";
  private static final String STOP = ".ETW";
  private static final String WORTH_READING = "LDC";
  private static final String SPOKEN = "LC";

  private Segments() {}

  /**
   * A stretch of text between white space.
   *
   * @param start index of its first code point
   * @param end index after its last
   * @param sentence whether it holds a letter, digit or CJK character; otherwise it is punctuation
   */
  record Segment(int start, int end, boolean sentence) {}

  /** Neighbouring lines that all have words, or none of which has. */
  private record Block(int start, int end, boolean text) {}

  /** The segments of a text, in order; only white space lies between them. */
  static List<Segment> of(Reading text) {
    List<Segment> found = new ArrayList<>();
    for (Block block : blocks(text)) {
      int start = block.start();
      if (block.text()) {
        for (int cut : cuts(text, start, block.end())) {
          addTrimmed(text, start, cut, found);
          start = cut;
        }
      }
      addTrimmed(text, start, block.end(), found);
    }
    return found;
  }

  /** How many sentences there are. */
  static int sentences(Reading text) {
    return (int) of(text).stream().filter(Segment::sentence).count();
  }

  /** How many blocks of text there are: lines with words, unbroken by a line without. */
  static int paragraphs(Reading text) {
    return (int) blocks(text).stream().filter(Block::text).count();
  }

  /** How many lines there are: line ends, plus one when text follows the last one. */
  static int lines(Reading text) {
    int count = 0;
    for (int at = 0; at < text.length(); at = lineEnd(text, at)) {
      count++;
    }
    return count;
  }

  private static List<Block> blocks(Reading text) {
    List<Block> found = new ArrayList<>();
    int at = 0;
    while (at < text.length()) {
      int after = lineEnd(text, at);
      boolean worth = text.find(WORTH_READING, at, after) < after;
      boolean joins = !found.isEmpty() && found.getLast().text() == worth;
      int start = joins ? found.removeLast().start() : at;
      found.add(new Block(start, after, worth));
      at = after;
    }
    return found;
  }

  /** The index after a line and its end. */
  private static int lineEnd(Reading text, int start) {
    int at = text.find(LINE_END, start, text.length());
    if (at == text.length()) {
      return at;
    }
    boolean both = text.classAt(at) == 'R' && at + 1 < text.length() && text.is(at + 1, "N");
    return at + (both ? 2 : 1);
  }

  private static void addTrimmed(Reading text, int start, int end, List<Segment> found) {
    int first = text.skip(SPACE, start, end);
    int last = text.trim(SPACE, first, end);
    if (first < last) {
      found.add(new Segment(first, last, text.find(WORTH_READING, first, last) < last));
    }
  }

  /** Where the sentences of a text block end. */
  private static List<Integer> cuts(Reading text, int blockStart, int end) {
    List<Integer> found = new ArrayList<>();
    int start = blockStart;
    int spoken = text.find(SPOKEN, start, end);
    int stop = text.find(STOP, start, end);
    while (stop < end) {
      int run = text.skip(STOP, stop, end);
      int closed = text.skip("QA", run, end);
      // A sentence without a letter or CJK character ("1.") does not end.
      if (spoken < stop && ends(text, start, stop, run, closed, end)) {
        found.add(closed);
        start = closed;
        spoken = text.find(SPOKEN, start, end);
      }
      stop = text.find(STOP, closed, end);
    }
    return found;
  }

  private static boolean ends(Reading text, int start, int stop, int run, int closed, int end) {
    if (!endsSentence(text, stop, run, closed, end)) {
      return false;
    }
    boolean oneFullStop = run - stop == 1 && text.is(stop, ".");
    return !(oneFullStop && isAbbreviated(text, start, stop));
  }

  private static boolean endsSentence(Reading text, int stop, int run, int closed, int end) {
    if (text.find("W", stop, run) < run || closed == end || text.is(closed, "SRNZ")) {
      return true;
    }
    return text.is(closed, "C") && text.find("T", stop, run) < run;
  }

  /** Whether an abbreviation or single letters ("e.g", "J") stand right before a full stop. */
  private static boolean isAbbreviated(Reading text, int start, int stop) {
    int first = stop;
    while (first > start && text.is(first - 1, "L.") && stop - first < LONGEST_ABBREVIATION) {
      first--;
    }
    if (first == stop || (first > start && text.is(first - 1, "LDMFIA_"))) {
      return false;
    }
    if (areSingleLetters(text, first, stop)) {
      return true;
    }
    boolean oneWord = text.find(".", first, stop) == stop;
    return oneWord && text.tables().isAbbreviation(text.lower(first, stop));
  }

  private static boolean areSingleLetters(Reading text, int first, int stop) {
    if ((stop - first) % 2 == 0) {
      return false;
    }
    for (int at = first; at < stop; at++) {
      if (!text.is(at, (at - first) % 2 == 0 ? "L" : ".")) {
        return false;
      }
    }
    return true;
  }
}
