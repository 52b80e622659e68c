package io.taskyard.builtin.vectors;

import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;

/** The nearest documents so far, exactly; equally near ones in the order of the index. */
final class Ranking {
  private record Found(Hit hit, int number) {}

  private static final Comparator<Found> WORST_FIRST =
      Comparator.<Found>comparingDouble(each -> each.hit().score())
          .thenComparing(Comparator.<Found>comparingInt(Found::number).reversed());

  private final double[] vector;
  private final double length;
  private final int most;
  private final PriorityQueue<Found> best = new PriorityQueue<>(WORST_FIRST);
  private int count;

  /**
   * Begins.
   *
   * @param vector what is looked for
   * @param most how many documents are kept
   */
  Ranking(double[] vector, int most) {
    this.vector = vector;
    this.most = most;
    length = Math.sqrt(product(vector, vector));
  }

  /** Looks at a document. */
  void look(IndexReading.Entry entry) {
    double lengths = length * Math.sqrt(product(entry.vector(), entry.vector()));
    double score = lengths == 0 ? 0 : product(vector, entry.vector()) / lengths;
    Document document = entry.document();
    best.add(new Found(new Hit(document.id(), score, document.text()), count++));
    if (best.size() > most) {
      best.remove();
    }
  }

  /** The nearest, the best first. */
  List<Hit> hits() {
    return best.stream().sorted(WORST_FIRST.reversed()).map(Found::hit).toList();
  }

  private static double product(double[] one, double[] other) {
    double sum = 0;
    for (int at = 0; at < one.length; at++) {
      sum += one[at] * other[at];
    }
    return sum;
  }
}
