package io.taskyard.builtin.text;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.math.BigInteger;

/**
 * A whole-number option. It arrives as JSON, where it may be 3.0, or as a flat text.
 *
 * @param name what it is called
 * @param preset what it is when it is left out
 * @param minimum the least value
 * @param maximum the greatest value
 */
record IntegerOption(String name, int preset, int minimum, int maximum) {
  private static final int DIGITS_READ = 18;

  /**
   * Reads it from the options that were given.
   *
   * @throws TextInputException it is no whole number, or out of bounds
   */
  int read(Options given) {
    JsonNode value = given.get(name);
    if (value == null) {
      return preset;
    }
    BigInteger number = whole(value);
    if (number == null || outOfBounds(number)) {
      String rule = "must be a whole number from %d to %d".formatted(minimum, maximum);
      throw new TextInputException(name, value, rule, "Give one in that range, or leave it out.");
    }
    return number.intValue();
  }

  private boolean outOfBounds(BigInteger number) {
    return number.compareTo(BigInteger.valueOf(minimum)) < 0
        || number.compareTo(BigInteger.valueOf(maximum)) > 0;
  }

  private static BigInteger whole(JsonNode value) {
    if (value.isIntegralNumber()) {
      return value.bigIntegerValue();
    }
    if (value.isNumber()) {
      BigDecimal decimal = new BigDecimal(value.asText()).stripTrailingZeros();
      return decimal.scale() <= 0 && decimal.precision() <= DIGITS_READ
          ? decimal.toBigInteger()
          : null;
    }
    String text = value.isTextual() ? value.textValue() : "";
    boolean digits = !text.isEmpty() && text.chars().allMatch(each -> each >= '0' && each <= '9');
    return digits && text.length() <= DIGITS_READ ? new BigInteger(text) : null;
  }
}
