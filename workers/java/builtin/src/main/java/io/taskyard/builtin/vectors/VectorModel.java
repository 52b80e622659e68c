package io.taskyard.builtin.vectors;

import java.util.List;

/** Makes vectors of texts. Vectors of different models are never compared. */
public interface VectorModel {

  /** The model's name. */
  String name();

  /** How many numbers a vector has. */
  int dimensions();

  /**
   * A vector of each text, in order, its numbers rounded to six decimals.
   *
   * @throws InterruptedException the attempt was told to stop
   */
  List<double[]> embed(List<String> texts) throws InterruptedException;

  /** Rounds to six decimals; a negative zero becomes zero. */
  static double rounded(double value) {
    return Math.rint(value * 1e6) / 1e6 + 0.0;
  }
}
