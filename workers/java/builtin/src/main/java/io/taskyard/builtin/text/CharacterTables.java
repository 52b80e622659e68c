package io.taskyard.builtin.text;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * The character classes, lower-case forms and word lists of docs/text-operations.md. Everything
 * that depends on what a character is asks here, never the runtime's own Unicode data.
 */
final class CharacterTables {

  /** The class of what is in no class. */
  private static final char OTHER = 'O';

  /** One letter for each class, so that the classes of a text are a string of its length. */
  private static final Map<String, Character> CODES =
      Map.ofEntries(
          Map.entry("apostrophe", 'A'),
          Map.entry("carriage_return", 'R'),
          Map.entry("cjk", 'C'),
          Map.entry("closer", 'Q'),
          Map.entry("comma", ','),
          Map.entry("control", 'K'),
          Map.entry("digit", 'D'),
          Map.entry("ellipsis", 'E'),
          Map.entry("format", 'F'),
          Map.entry("full_stop", '.'),
          Map.entry("invisible", 'I'),
          Map.entry("letter", 'L'),
          Map.entry("line_end", 'N'),
          Map.entry("low_line", '_'),
          Map.entry("mark", 'M'),
          Map.entry("space", 'S'),
          Map.entry("terminator", 'T'),
          Map.entry("wide_terminator", 'W'),
          Map.entry("zero_width_space", 'Z'));

  /** The tables as they are packaged, read once: after the codes, which reading them needs. */
  static final CharacterTables PACKAGED = new CharacterTables();

  private final byte[] classes = new byte[Character.MAX_CODE_POINT + 1];
  private final int[] lower;
  private final Set<String> stopWords;
  private final Set<String> stopCharacters;
  private final Set<String> abbreviations;

  private CharacterTables() {
    JsonNode characters = packaged("character-classes.json");
    Arrays.fill(classes, (byte) OTHER);
    for (Map.Entry<String, JsonNode> each : characters.get("classes").properties()) {
      byte code = (byte) CODES.get(each.getKey()).charValue();
      for (JsonNode range : each.getValue()) {
        Arrays.fill(classes, range.get(0).intValue(), range.get(1).intValue() + 1, code);
      }
    }
    lower = lowerCaseForms(characters.get("lower"));
    JsonNode words = packaged("words.json");
    stopWords = texts(words.get("stop_words"));
    stopCharacters = texts(words.get("stop_characters"));
    abbreviations = texts(words.get("abbreviations"));
  }

  /** The letter of a code point's class. */
  char classOf(int codePoint) {
    return (char) classes[codePoint];
  }

  /** A code point as it stands in keys: in lower case, every apostrophe as U+0027. */
  int keyOf(int codePoint) {
    if (classOf(codePoint) == 'A') {
      return '\'';
    }
    return codePoint < lower.length ? lower[codePoint] : codePoint;
  }

  boolean isStopWord(String term) {
    return stopWords.contains(term);
  }

  boolean isStopCharacter(String unit) {
    return stopCharacters.contains(unit);
  }

  boolean isAbbreviation(String word) {
    return abbreviations.contains(word);
  }

  private static int[] lowerCaseForms(JsonNode runs) {
    int last = 0;
    for (JsonNode run : runs) {
      last = Math.max(last, run.get(1).intValue());
    }
    int[] forms = new int[last + 1];
    Arrays.setAll(forms, codePoint -> codePoint);
    for (JsonNode run : runs) {
      int step = run.get(2).intValue();
      for (int code = run.get(0).intValue(); code <= run.get(1).intValue(); code += step) {
        forms[code] = code + run.get(3).intValue();
      }
    }
    return forms;
  }

  private static Set<String> texts(JsonNode list) {
    Set<String> found = new HashSet<>();
    list.forEach(each -> found.add(each.textValue()));
    return found;
  }

  private static JsonNode packaged(String name) {
    try (InputStream in = CharacterTables.class.getResourceAsStream(name)) {
      return new ObjectMapper().readTree(in);
    } catch (IOException error) {
      throw new UncheckedIOException(name + " cannot be read from the jar", error);
    }
  }
}
