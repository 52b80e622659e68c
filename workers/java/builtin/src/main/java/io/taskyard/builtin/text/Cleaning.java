package io.taskyard.builtin.text;

import java.util.regex.Pattern;

/** The operation `clean`: takes out what nobody sees and evens out white space. */
final class Cleaning {
  static final FlagOption KEEP_LINES = new FlagOption("keep_lines", true);

  // Possessive, to read each run once.
  private static final Pattern CONTROL_SEQUENCE = Pattern.compile("\u001b\\[[0-?]*+[ -/]*+[@-~]");
  private static final Pattern SPACES = Pattern.compile(" {2,}");
  private static final Pattern LINE_EDGE = Pattern.compile(" ?\n ?");
  private static final Pattern BLANK_LINES = Pattern.compile("\n{3,}");

  private Cleaning() {}

  /**
   * The text with even white space and without control and invisible characters.
   *
   * @param keepLines whether lines stay lines, at most one blank line between two; else all is one
   */
  static String clean(String text, boolean keepLines) {
    String seen = visible(Reading.of(CONTROL_SEQUENCE.matcher(text).replaceAll("")));
    String lines = seen.replace("\r\n", "\n").replace('\r', '\n');
    if (!keepLines) {
      return stripped(SPACES.matcher(lines.replace('\n', ' ')).replaceAll(" "), " ");
    }
    String even = LINE_EDGE.matcher(SPACES.matcher(lines).replaceAll(" ")).replaceAll("\n");
    return stripped(BLANK_LINES.matcher(even).replaceAll("\n\n"), " \n");
  }

  private static String visible(Reading text) {
    StringBuilder kept = new StringBuilder(text.length());
    for (int at = 0; at < text.length(); at++) {
      switch (text.classAt(at)) {
        case 'K', 'I', 'Z' -> {} // nobody sees them
        case 'S' -> kept.append(' ');
        case 'N' -> kept.append('\n');
        default -> kept.appendCodePoint(text.codePoint(at));
      }
    }
    return kept.toString();
  }

  private static String stripped(String text, String edges) {
    int start = 0;
    int end = text.length();
    while (start < end && edges.indexOf(text.charAt(start)) >= 0) {
      start++;
    }
    while (end > start && edges.indexOf(text.charAt(end - 1)) >= 0) {
      end--;
    }
    return text.substring(start, end);
  }
}
