package io.taskyard.builtin.vectors;

import com.fasterxml.jackson.databind.JsonNode;
import io.taskyard.builtin.input.Fields;
import io.taskyard.builtin.input.Refusal;
import java.util.OptionalInt;

/**
 * The models that this worker has.
 *
 * @param preset the model of tasks that name none
 */
public record Models(String preset) {
  /** The model that runs in this process, which `model=` of the worker's labels names. */
  public static final String IN_PROCESS = MiniLm.NAME;

  private static final VectorModel MINI_LM = new MiniLm();
  private static final String HASHING = "hashing-v1";

  /**
   * A model by its name; null: the worker's own.
   *
   * @throws Refusal this worker has no such model
   */
  public VectorModel find(JsonNode name) throws Refusal {
    return find(name == null ? preset : Fields.textOf("model", name));
  }

  /** A model by its name. */
  public VectorModel find(String name) throws Refusal {
    if (name.equals(MiniLm.NAME)) {
      return MINI_LM;
    }
    OptionalInt dimensions = Hashing.dimensionsOf(name);
    if (dimensions.isPresent()) {
      return new Hashing(name, dimensions.getAsInt());
    }
    String shown = name.length() <= 200 ? name : name.substring(0, 200) + "…";
    if (name.startsWith(HASHING)) {
      throw Refusal.invalid(
          "'model' is '%s', which is none: hashing-v1-N has %d to %,d dimensions N, and hashing-v1"
              + " has 256",
          shown, Hashing.LEAST, Hashing.MOST);
    }
    throw Refusal.invalid(
        "'model' is '%s', which this worker does not have: use %s or %s, or select a worker that"
            + " has it by its label",
        shown, MiniLm.NAME, HASHING);
  }
}
