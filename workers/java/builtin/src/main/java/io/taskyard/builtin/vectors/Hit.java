package io.taskyard.builtin.vectors;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A document that was found.
 *
 * @param score the cosine of the angle between it and what was looked for
 */
record Hit(String id, double score, String text) {

  /** As the output has it. */
  Map<String, Object> row() {
    Map<String, Object> row = new LinkedHashMap<>();
    row.put("id", id);
    row.put("score", VectorModel.rounded(score));
    row.put("text", text);
    return row;
  }
}
