package io.taskyard.builtin.text;

/** Fixed decimals out of integers, so that no runtime's float formatting shows in a result. */
final class Decimals {
  private Decimals() {}

  /**
   * The quotient with three decimals, a tie going to the even thousandth; by 0 it is "0.000".
   *
   * @param numerator 0 or more
   * @param denominator 0 or more
   */
  static String thousandths(long numerator, long denominator) {
    if (denominator == 0) {
      return "0.000";
    }
    long units = numerator * 1000 / denominator;
    long rest = numerator * 1000 % denominator;
    if (2 * rest > denominator || (2 * rest == denominator && units % 2 == 1)) {
      units++;
    }
    long below = units % 1000;
    return units / 1000 + "." + (below < 10 ? "00" : below < 100 ? "0" : "") + below;
  }
}
