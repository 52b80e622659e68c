package io.taskyard.builtin.vectors;

import io.taskyard.builtin.text.WordKeys;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The model `hashing-v1`, as docs/task-types.md specifies it: a vector from the words of a text,
 * the same everywhere. It knows no meaning, and needs no weights and no network.
 *
 * @param name `hashing-v1`, or `hashing-v1-N`
 * @param dimensions how many numbers a vector has
 */
record Hashing(String name, int dimensions) implements VectorModel {
  static final int LEAST = 16;
  static final int MOST = 4096;

  private static final int PRESET = 256;
  private static final int PIECE = 3;
  private static final double PAIR_WEIGHT = 0.25;
  private static final double PIECE_WEIGHT = 0.5;
  private static final Pattern NAME = Pattern.compile("hashing-v1(?:-([1-9][0-9]{1,3}))?");

  /** How many dimensions a model of this kind has; empty when the name is another's. */
  static OptionalInt dimensionsOf(String name) {
    Matcher found = NAME.matcher(name);
    if (!found.matches()) {
      return OptionalInt.empty();
    }
    int dimensions = found.group(1) == null ? PRESET : Integer.parseInt(found.group(1));
    return dimensions >= LEAST && dimensions <= MOST
        ? OptionalInt.of(dimensions)
        : OptionalInt.empty();
  }

  @Override
  public List<double[]> embed(List<String> texts) throws InterruptedException {
    List<double[]> vectors = new ArrayList<>(texts.size());
    for (String text : texts) {
      if (Thread.interrupted()) {
        throw new InterruptedException();
      }
      vectors.add(embed(text));
    }
    return vectors;
  }

  private double[] embed(String text) {
    double[] vector = new double[dimensions];
    MessageDigest sha256 = sha256();
    features(WordKeys.of(text))
        .forEach((feature, count) -> add(vector, sha256, feature, weight(feature, count)));
    double length = 0;
    for (double value : vector) {
      length += value * value;
    }
    for (int at = 0; at < dimensions && length > 0; at++) {
      vector[at] = VectorModel.rounded(vector[at] / Math.sqrt(length));
    }
    return vector;
  }

  /** How often each feature occurs: words, pairs of neighbours, pieces of words. */
  private static Map<String, Integer> features(List<WordKeys.Key> words) {
    Map<String, Integer> counts = new LinkedHashMap<>();
    for (int at = 0; at < words.size(); at++) {
      WordKeys.Key word = words.get(at);
      counts.merge("w " + word.text(), 1, Integer::sum);
      if (at > 0) {
        counts.merge("p " + words.get(at - 1).text() + " " + word.text(), 1, Integer::sum);
      }
      if (!word.cjk()) {
        addPieces(word.text(), counts);
      }
    }
    return counts;
  }

  private static void addPieces(String word, Map<String, Integer> counts) {
    int[] framed = ("<" + word + ">").codePoints().toArray();
    for (int start = 0; start + PIECE <= framed.length; start++) {
      counts.merge("g " + new String(framed, start, PIECE), 1, Integer::sum);
    }
  }

  private static double weight(String feature, int count) {
    double weight =
        switch (feature.charAt(0)) {
          case 'p' -> PAIR_WEIGHT;
          case 'g' -> PIECE_WEIGHT;
          default -> 1.0;
        };
    return weight * Math.sqrt(count);
  }

  private void add(double[] vector, MessageDigest sha256, String feature, double weight) {
    byte[] digest = sha256.digest(feature.getBytes(StandardCharsets.UTF_8));
    long number = Integer.toUnsignedLong(ByteBuffer.wrap(digest).getInt());
    vector[(int) (number % dimensions)] += (digest[4] & 1) == 1 ? -weight : weight;
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException("every JDK has SHA-256", error);
    }
  }
}
