package io.taskyard.builtin.text;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** The operation `summarize`: the sentences that say most of what a text repeats. */
final class Summary {
  static final IntegerOption MAX_SENTENCES = new IntegerOption("max_sentences", 3, 1, 1000);

  /** Code points of one sentence that a summary shows. */
  private static final int LONGEST_SENTENCE = 600;

  private static final int DAMPING = 8;

  private Summary() {}

  /** A sentence on one line, its terms, and whether white space follows it. */
  private record Sentence(String text, List<String> terms, boolean spaced) {}

  /** The best sentences of the cleaned text, in its order, on one line. */
  static String summarize(String text, int maxSentences) {
    List<Sentence> sentences = sentences(Cleaning.clean(text, true));
    Map<String, Integer> counts =
        Keywords.counts(sentences.stream().flatMap(each -> each.terms().stream()).toList());
    long[] scores = new long[sentences.size()];
    for (int at = 0; at < scores.length; at++) {
      long score = score(sentences.get(at), counts);
      scores[at] = at == 0 ? score + score / 2 : score;
    }
    // The sort is stable: of equals the earlier one is taken.
    return joined(
        IntStream.range(0, scores.length)
            .boxed()
            .sorted(Comparator.comparingLong(at -> -scores[at]))
            .limit(maxSentences)
            .sorted()
            .map(sentences::get)
            .toList());
  }

  /** The distinct sentences, each where it comes first. */
  private static List<Sentence> sentences(String cleaned) {
    Reading text = Reading.of(cleaned);
    Map<String, Sentence> found = new LinkedHashMap<>();
    for (Segments.Segment each : Segments.of(text)) {
      String line = text.text(each.start(), each.end()).replace('\n', ' ');
      if (each.sentence() && !found.containsKey(line)) {
        List<String> terms = Words.terms(text, each.start(), each.end());
        found.put(line, new Sentence(line, terms, isSpaced(text, each.end())));
      }
    }
    return new ArrayList<>(found.values());
  }

  private static boolean isSpaced(Reading text, int end) {
    return end == text.length() || text.codePoint(end) == ' ' || text.codePoint(end) == '\n';
  }

  private static long score(Sentence sentence, Map<String, Integer> counts) {
    long weight = new HashSet<>(sentence.terms()).stream().mapToLong(counts::get).sum();
    return 1000 * weight / (DAMPING + sentence.terms().size());
  }

  private static String joined(List<Sentence> sentences) {
    StringBuilder all = new StringBuilder();
    boolean spaced = false;
    for (Sentence each : sentences) {
      all.append(spaced ? " " : "").append(shortened(each.text()));
      spaced = each.spaced();
    }
    return all.toString();
  }

  private static String shortened(String line) {
    if (Words.length(line) <= LONGEST_SENTENCE) {
      return line;
    }
    Reading text = Reading.of(line);
    Splitting.Span first = Splitting.first(text, LONGEST_SENTENCE);
    return text.text(first.start(), first.end()) + "\u2026";
  }
}
