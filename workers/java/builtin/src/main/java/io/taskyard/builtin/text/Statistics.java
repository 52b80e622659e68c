package io.taskyard.builtin.text;

import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The operation `statistics`: how much of what a text holds, as it is and not cleaned. */
final class Statistics {
  private Statistics() {}

  /** The counts of a text; lengths are in code points, averages have three decimals. */
  static Map<String, Object> statistics(String source) {
    Reading text = Reading.of(source);
    List<String> words =
        Words.tokens(text, 0, text.length()).stream()
            .flatMap(each -> each.units().stream())
            .toList();
    long lengths = words.stream().mapToLong(Words::length).sum();
    int sentences = Segments.sentences(text);
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("characters", text.length());
    found.put("characters_without_spaces", text.length() - text.count(Segments.SPACE));
    found.put("utf8_bytes", text.text(0, text.length()).getBytes(StandardCharsets.UTF_8).length);
    found.put("letters", text.count("L"));
    found.put("digits", text.count("D"));
    found.put("cjk_characters", text.count("C"));
    found.put("words", words.size());
    found.put("unique_words", new HashSet<>(words).size());
    found.put("sentences", sentences);
    found.put("paragraphs", Segments.paragraphs(text));
    found.put("lines", Segments.lines(text));
    found.put("average_word_length", Decimals.thousandths(lengths, words.size()));
    found.put("average_sentence_words", Decimals.thousandths(words.size(), sentences));
    return found;
  }
}
