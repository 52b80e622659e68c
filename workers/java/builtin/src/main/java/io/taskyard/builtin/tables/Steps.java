package io.taskyard.builtin.tables;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.taskyard.builtin.input.Fields;
import io.taskyard.builtin.input.Refusal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads the steps of a pipeline out of its input. */
final class Steps {
  private static final int MOST = 100;
  private static final int MOST_COLUMNS = 1000;
  private static final List<String> KINDS = List.of("filter", "project", "aggregate", "join");

  private Steps() {}

  /**
   * The steps, in their order.
   *
   * @throws Refusal one is none; the message names it
   */
  static List<Step> of(JsonNode given) throws Refusal {
    List<Step> steps = new ArrayList<>();
    if (given == null) {
      return steps;
    }
    if (!given.isArray() || given.size() > MOST) {
      throw Refusal.invalid("'steps' must be a list of at most %d steps", MOST);
    }
    for (JsonNode each : given) {
      steps.add(step("steps[%d]".formatted(steps.size()), each));
    }
    return steps;
  }

  private static Step step(String place, JsonNode given) throws Refusal {
    if (!given.isObject() || given.size() != 1 || !KINDS.contains(given.fieldNames().next())) {
      throw Refusal.invalid(
          "'%s' is %s; it must be an object with one of %s",
          place, Fields.shown(given), String.join(", ", KINDS));
    }
    String kind = given.fieldNames().next();
    String field = place + "." + kind;
    JsonNode value = given.get(kind);
    return switch (kind) {
      case "filter" -> new Step.Filter(Fields.textOf(field, value));
      case "project" -> new Step.Project(columns(field, value));
      case "aggregate" -> aggregate(field, value);
      default -> join(field, value);
    };
  }

  private static Step aggregate(String field, JsonNode value) throws Refusal {
    Fields fields = Fields.of(field, object(field, value), List.of("by", "values"));
    List<String> by = fields.has("by") ? names(field + ".by", fields.get("by")) : List.of();
    return new Step.Aggregate(by, expressions(field + ".values", fields.get("values")));
  }

  private static Step join(String field, JsonNode value) throws Refusal {
    List<String> known = List.of(Source.URI, Source.FORMAT, "on", "how");
    Fields fields = Fields.of(field, object(field, value), known);
    String how = fields.text("how", "inner");
    if (!how.equals("inner") && !how.equals("left")) {
      throw Refusal.invalid("'%s.how' is '%s'; it must be inner or left", field, how);
    }
    List<String> on = names(field + ".on", fields.get("on"));
    return new Step.Join(Source.of(fields), on, how.equals("left"));
  }

  /** Columns as they are, by a list of their names, or computed, by an object. */
  private static Map<String, String> columns(String field, JsonNode value) throws Refusal {
    if (!value.isArray()) {
      return expressions(field, value);
    }
    Map<String, String> columns = new LinkedHashMap<>();
    names(field, value).forEach(each -> columns.put(each, Sql.name(each)));
    return columns;
  }

  private static Map<String, String> expressions(String field, JsonNode value) throws Refusal {
    Map<String, String> expressions = new LinkedHashMap<>();
    for (Map.Entry<String, JsonNode> each : object(field, value).properties()) {
      String place = "%s.%s".formatted(field, each.getKey());
      expressions.put(each.getKey(), Fields.textOf(place, each.getValue()));
    }
    return expressions;
  }

  private static ObjectNode object(String field, JsonNode value) throws Refusal {
    if (value instanceof ObjectNode object && !value.isEmpty() && value.size() <= MOST_COLUMNS) {
      return object;
    }
    throw Refusal.invalid("'%s' is %s; it must be an object", field, Fields.shown(value));
  }

  private static List<String> names(String field, JsonNode value) throws Refusal {
    if (value == null || !value.isArray() || value.isEmpty() || value.size() > MOST_COLUMNS) {
      throw Refusal.invalid(
          "'%s' is %s; it must be a list of 1 to %,d names of columns",
          field, Fields.shown(value), MOST_COLUMNS);
    }
    List<String> names = new ArrayList<>();
    for (JsonNode each : value) {
      names.add(Fields.textOf("%s[%d]".formatted(field, names.size()), each));
    }
    return names;
  }
}
