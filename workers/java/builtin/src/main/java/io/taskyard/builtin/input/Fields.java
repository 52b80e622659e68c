package io.taskyard.builtin.input;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;

/** The input of a task, field by field. A field that is null counts as left out. */
public final class Fields {
  private static final int SHOWN = 200;

  private final String type;
  private final ObjectNode values;

  private Fields(String type, ObjectNode values) {
    this.type = type;
    this.values = values;
  }

  /**
   * Takes an input.
   *
   * @param type the task type, for messages
   * @param known the names of all its fields
   * @throws Refusal it has a field of another name
   */
  public static Fields of(String type, ObjectNode values, List<String> known) throws Refusal {
    for (Map.Entry<String, JsonNode> each : values.properties()) {
      if (!known.contains(each.getKey()) && !each.getValue().isNull()) {
        throw Refusal.invalid(
            "'%s' is no input of %s, which has %s; correct its name",
            cut(each.getKey()), type, String.join(", ", known));
      }
    }
    return new Fields(type, values);
  }

  /** The value of a field; null when it was left out. */
  public JsonNode get(String name) {
    JsonNode value = values.get(name);
    return value == null || value.isNull() ? null : value;
  }

  /** Whether a field was given. */
  public boolean has(String name) {
    return get(name) != null;
  }

  /**
   * Checks that one of two fields was given.
   *
   * @throws Refusal none or both were
   */
  public void eitherOf(String one, String other) throws Refusal {
    if (has(one) == has(other)) {
      throw Refusal.invalid(
          "a task of type %s has either '%s' or '%s'; give exactly one of them", type, one, other);
    }
  }

  /**
   * A text that says something.
   *
   * @throws Refusal it is absent, empty or no text
   */
  public String text(String name) throws Refusal {
    return textOf(name, get(name));
  }

  /** The text of a field; `preset` when it was left out. */
  public String text(String name, String preset) throws Refusal {
    return has(name) ? text(name) : preset;
  }

  /** A whole number, as JSON or as a flat text; `preset` when it was left out. */
  public int integer(String name, int preset, int least, int most) throws Refusal {
    JsonNode value = get(name);
    if (value == null) {
      return preset;
    }
    String text = value.asText();
    boolean whole = text.length() <= 10 && text.matches("-?\\d+(\\.0+)?");
    long number = whole ? new java.math.BigDecimal(text).longValue() : Long.MIN_VALUE;
    if (!(value.isNumber() || value.isTextual()) || number < least || number > most) {
      throw Refusal.invalid(
          "'%s' is %s; it must be a whole number from %d to %d", name, shown(value), least, most);
    }
    return (int) number;
  }

  /** A yes or no, as JSON or as a flat text; false when it was left out. */
  public boolean flag(String name) throws Refusal {
    JsonNode value = get(name);
    if (value == null) {
      return false;
    }
    String text = value.isBoolean() || value.isTextual() ? value.asText() : "";
    if (!text.equals("true") && !text.equals("false")) {
      throw Refusal.invalid("'%s' is %s; it must be true or false", name, shown(value));
    }
    return text.equals("true");
  }

  /**
   * The address of an artifact.
   *
   * @throws Refusal it is none
   */
  public String artifact(String name) throws Refusal {
    JsonNode value = get(name);
    if (value == null || !isArtifact(value)) {
      throw Refusal.invalid(
          "'%s' is %s; it must be the address of an artifact, artifact://…", name, shown(value));
    }
    return value.textValue();
  }

  /** Whether a value is the address of an artifact. */
  public static boolean isArtifact(JsonNode value) {
    return value.isTextual() && value.textValue().startsWith("artifact://");
  }

  /**
   * A text that says something.
   *
   * @param name what it is called, for the message
   * @throws Refusal it is absent, empty or no text
   */
  public static String textOf(String name, JsonNode value) throws Refusal {
    if (value == null || !value.isTextual() || value.textValue().isBlank()) {
      throw Refusal.invalid("'%s' is %s; it must be a text that is not empty", name, shown(value));
    }
    return value.textValue();
  }

  /** A value as a message shows it. */
  public static String shown(JsonNode value) {
    return value == null ? "absent" : cut(value.toString());
  }

  private static String cut(String text) {
    return text.length() <= SHOWN ? text : text.substring(0, SHOWN) + "…";
  }
}
