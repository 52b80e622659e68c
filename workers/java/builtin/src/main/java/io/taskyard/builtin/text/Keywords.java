package io.taskyard.builtin.text;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The operation `keywords`: the terms that a text repeats most. */
final class Keywords {
  static final IntegerOption TOP_K = new IntegerOption("top_k", 10, 1, 1000);

  private Keywords() {}

  /** The most frequent terms of the cleaned text, each with its count and its share of all. */
  static List<Map<String, Object>> keywords(String text, int topK) {
    Reading cleaned = Reading.of(Cleaning.clean(text, true));
    List<String> terms = Words.terms(cleaned, 0, cleaned.length());
    // The sort is stable, and the map keeps the order of first occurrence: the tie-break.
    List<Map.Entry<String, Integer>> ranked = new ArrayList<>(counts(terms).entrySet());
    ranked.sort((one, other) -> Integer.compare(other.getValue(), one.getValue()));
    return ranked.stream().limit(topK).map(each -> row(each, terms.size())).toList();
  }

  /** How often each occurs, in the order of first occurrence. */
  static Map<String, Integer> counts(List<String> terms) {
    Map<String, Integer> found = new LinkedHashMap<>();
    terms.forEach(term -> found.merge(term, 1, Integer::sum));
    return found;
  }

  private static Map<String, Object> row(Map.Entry<String, Integer> term, int total) {
    Map<String, Object> row = new LinkedHashMap<>();
    row.put("keyword", term.getKey());
    row.put("count", term.getValue());
    row.put("share", Decimals.thousandths(term.getValue(), total));
    return row;
  }
}
