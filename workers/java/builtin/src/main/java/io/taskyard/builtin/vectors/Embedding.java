package io.taskyard.builtin.vectors;

import com.fasterxml.jackson.databind.JsonNode;
import io.taskyard.builtin.input.Fields;
import io.taskyard.builtin.input.Guarded;
import io.taskyard.builtin.input.Refusal;
import io.taskyard.worker.TaskContext;
import io.taskyard.worker.TaskInput;
import io.taskyard.worker.TaskOutcome;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The task type `embedding`: vectors of texts.
 *
 * @param models those that this worker has
 */
public record Embedding(Models models) implements Guarded {
  private static final int MOST_TEXTS = 10_000;

  @Override
  public TaskOutcome run(TaskInput input, TaskContext context)
      throws Refusal, InterruptedException {
    Fields fields = Fields.of("embedding", input.values(), List.of("text", "texts", "model"));
    fields.eitherOf("text", "texts");
    List<String> texts =
        fields.has("text") ? List.of(fields.text("text")) : texts(fields.get("texts"));
    VectorModel model = models.find(fields.get("model"));
    Map<String, Object> output =
        Map.of(
            "dimensions", model.dimensions(),
            "model", model.name(),
            "vectors", model.embed(texts));
    return new TaskOutcome.Success(output, Map.of("model", model.name()));
  }

  private static List<String> texts(JsonNode given) throws Refusal {
    if (!given.isArray() || given.isEmpty() || given.size() > MOST_TEXTS) {
      throw Refusal.invalid("'texts' must be a list of 1 to %,d texts", MOST_TEXTS);
    }
    List<String> texts = new ArrayList<>(given.size());
    for (JsonNode each : given) {
      texts.add(Fields.textOf("texts[" + texts.size() + "]", each));
    }
    return texts;
  }
}
