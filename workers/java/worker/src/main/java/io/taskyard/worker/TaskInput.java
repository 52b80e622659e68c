package io.taskyard.worker;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Objects;

/**
 * What a task was given: one mapping, the typed input over the flat parameters.
 *
 * @param values JSON values by name; each handler call has its own copy
 */
public record TaskInput(ObjectNode values) {
  public TaskInput {
    Objects.requireNonNull(values, "values");
  }
}
