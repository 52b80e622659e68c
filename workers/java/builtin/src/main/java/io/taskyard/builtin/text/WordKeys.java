package io.taskyard.builtin.text;

import java.util.ArrayList;
import java.util.List;

/** The words of a text as `hashing-v1` takes them. */
public final class WordKeys {
  private static final int LONGEST = 64;

  private WordKeys() {}

  /**
   * A word or a CJK character with its marks, in lower case; at most 64 code points of it.
   *
   * @param cjk whether it is such a character
   */
  public record Key(String text, boolean cjk) {}

  /** The keys in order, without stop words unless there is nothing else. */
  public static List<Key> of(String text) {
    Reading reading = Reading.of(text);
    List<Key> all = new ArrayList<>();
    for (Words.Token token : Words.tokens(reading, 0, reading.length())) {
      token.units().forEach(unit -> all.add(new Key(cut(unit), token.cjk())));
    }
    List<Key> kept = all.stream().filter(each -> !isStopped(each, reading.tables())).toList();
    return kept.isEmpty() ? all : kept;
  }

  private static boolean isStopped(Key key, CharacterTables tables) {
    return key.cjk() ? tables.isStopCharacter(key.text()) : tables.isStopWord(key.text());
  }

  private static String cut(String key) {
    return Words.length(key) <= LONGEST
        ? key
        : key.substring(0, key.offsetByCodePoints(0, LONGEST));
  }
}
