package io.taskyard.builtin.text;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The operation `split`: chunks of bounded length that end where sentences end. */
final class Splitting {
  static final IntegerOption MAX_CHARS = new IntegerOption("max_chars", 1000, 16, 1_000_000);
  static final IntegerOption OVERLAP = new IntegerOption("overlap", 0, 0, 500_000);

  private static final int ZERO_WIDTH_JOINER = 0x200D;

  private Splitting() {}

  /** A stretch of the text. */
  record Span(int start, int end) {}

  /**
   * The text in chunks, each with where it starts and ends.
   *
   * @param limit code points of the longest chunk
   * @param overlap how many code points of whole sentences a chunk may repeat of the one before
   */
  static List<Map<String, Object>> split(String source, int limit, int overlap) {
    Reading text = Reading.of(source);
    List<Span> pieces = new ArrayList<>();
    Segments.of(text)
        .forEach(each -> addBroken(text, new Span(each.start(), each.end()), limit, pieces));
    return chunks(pieces, limit, overlap).stream().map(each -> row(text, each)).toList();
  }

  /** The first part of a text that is longer than the limit. */
  static Span first(Reading text, int limit) {
    List<Span> parts = new ArrayList<>();
    addBroken(text, new Span(0, text.length()), limit, parts);
    return parts.getFirst();
  }

  private static Map<String, Object> row(Reading text, Span span) {
    Map<String, Object> row = new LinkedHashMap<>();
    row.put("start", span.start());
    row.put("end", span.end());
    row.put("text", text.text(span.start(), span.end()));
    return row;
  }

  /** Adds a span in parts that keep the limit, cut at white space where there is any. */
  private static void addBroken(Reading text, Span span, int limit, List<Span> parts) {
    int start = span.start();
    while (span.end() - start > limit) {
      int space = lastSpace(text, start + 1, start + limit);
      if (space > 0) {
        parts.add(new Span(start, text.trim(Segments.SPACE, start, space)));
        start = text.skip(Segments.SPACE, space, span.end());
      } else {
        int cut = betweenCharacters(text, start, start + limit);
        parts.add(new Span(start, cut));
        start = cut;
      }
    }
    parts.add(new Span(start, span.end()));
  }

  /** The last white space from `first` to `last`, both inclusive; -1 when there is none. */
  private static int lastSpace(Reading text, int first, int last) {
    for (int at = last; at >= first; at--) {
      if (text.is(at, Segments.SPACE)) {
        return at;
      }
    }
    return -1;
  }

  /** The cut, moved back if it can be so that it parts no character from its marks. */
  private static int betweenCharacters(Reading text, int start, int cut) {
    int at = cut;
    while (at > start && (text.is(at, "MFI") || text.codePoint(at - 1) == ZERO_WIDTH_JOINER)) {
      at--;
    }
    return at > start ? at : cut;
  }

  /** Packs whole pieces greedily; each chunk has at least one piece that no earlier one had. */
  private static List<Span> chunks(List<Span> pieces, int limit, int overlap) {
    List<Span> found = new ArrayList<>();
    int first = 0;
    int fresh = 0;
    while (fresh < pieces.size()) {
      int after = fresh + 1;
      int start = pieces.get(first).start();
      while (after < pieces.size() && pieces.get(after).end() - start <= limit) {
        after++;
      }
      found.add(new Span(start, pieces.get(after - 1).end()));
      if (after < pieces.size()) {
        first = overlapFrom(pieces, fresh, after, limit, overlap);
      }
      fresh = after;
    }
    return found;
  }

  /** The next chunk's first piece: as far back as overlap and limit allow, never past `fresh`. */
  private static int overlapFrom(List<Span> pieces, int fresh, int after, int limit, int overlap) {
    int endOfChunk = pieces.get(after - 1).end();
    int endOfNext = pieces.get(after).end();
    int first = after;
    while (first > fresh) {
      int start = pieces.get(first - 1).start();
      if (endOfChunk - start > overlap || endOfNext - start > limit) {
        break;
      }
      first--;
    }
    return first;
  }
}
