package io.taskyard.builtin.vectors;

import com.fasterxml.jackson.databind.JsonNode;
import io.taskyard.builtin.input.Fields;
import io.taskyard.builtin.input.Guarded;
import io.taskyard.builtin.input.Refusal;
import io.taskyard.worker.TaskContext;
import io.taskyard.worker.TaskInput;
import io.taskyard.worker.TaskOutcome;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * The task type `search`: the documents of an index that are nearest to a question; exactly, or
 * approximately through a graph that is kept for the next question.
 *
 * @param models those that this worker has
 * @param graphs of the indexes that were searched approximately
 */
public record Search(Models models, Graphs graphs) implements Guarded {
  private static final int MOST_HITS = 1000;

  @Override
  public TaskOutcome run(TaskInput input, TaskContext context)
      throws Refusal, IOException, InterruptedException {
    List<String> known = List.of("index", "query", "vector", "top_k", "model", "approximate");
    Fields fields = Fields.of("search", input.values(), known);
    fields.eitherOf("query", "vector");
    String uri = fields.artifact("index");
    int most = fields.integer("top_k", 5, 1, MOST_HITS);
    boolean approximate = fields.flag("approximate");
    Question question = question(fields);
    Answer answer =
        approximate
            ? approximately(uri, question, most, context)
            : exactly(uri, question, most, context);
    Map<String, Object> output =
        Map.of("hits", answer.hits().stream().map(Hit::row).toList(), "model", answer.model());
    return new TaskOutcome.Success(output, Map.of("model", answer.model()));
  }

  private record Answer(String model, List<Hit> hits) {}

  /** What is looked for: a text or a vector, and the model that it is of; each may be null. */
  private record Question(String query, double[] vector, String model) {}

  private Answer exactly(String uri, Question question, int most, TaskContext context)
      throws Refusal, IOException, InterruptedException {
    try (IndexReading index = new IndexReading(context.artifacts().open(uri))) {
      Ranking ranking = new Ranking(vector(question, index.model(), index.dimensions()), most);
      for (IndexReading.Entry each = index.next(); each != null; each = index.next()) {
        ranking.look(each);
        if (Thread.interrupted()) {
          throw new InterruptedException();
        }
      }
      return new Answer(index.model(), ranking.hits());
    }
  }

  private Answer approximately(String uri, Question question, int most, TaskContext context)
      throws Refusal, IOException, InterruptedException {
    Graph graph = graphs.of(uri, context.artifacts());
    double[] vector = vector(question, graph.model(), graph.dimensions());
    return new Answer(graph.model(), graph.nearest(vector, most));
  }

  private double[] vector(Question question, String model, int dimensions)
      throws Refusal, InterruptedException {
    if (question.model() != null && !question.model().equals(model)) {
      throw Refusal.invalid(
          "the index was made by '%s' and 'model' is '%s': do not mix them",
          model, question.model());
    }
    double[] vector =
        question.query() == null
            ? question.vector()
            : models.find(model).embed(List.of(question.query())).getFirst();
    if (vector.length != dimensions) {
      throw Refusal.invalid(
          "the vectors of the index have %d numbers, and that of the question %d: take one of the"
              + " same model",
          dimensions, vector.length);
    }
    return vector;
  }

  private static Question question(Fields fields) throws Refusal {
    String query = fields.text("query", null);
    double[] vector = query == null ? numbers(fields.get("vector")) : null;
    return new Question(query, vector, fields.text("model", null));
  }

  private static double[] numbers(JsonNode value) throws Refusal {
    double[] numbers = value.isArray() ? IndexReading.numbers(value) : null;
    if (numbers == null || Arrays.stream(numbers).allMatch(each -> each == 0)) {
      throw Refusal.invalid("'vector' must be a list of numbers, not all of them 0");
    }
    return numbers;
  }
}
