package io.taskyard.builtin.vectors;

import com.fasterxml.jackson.databind.JsonNode;
import io.taskyard.builtin.input.Fields;
import io.taskyard.builtin.input.Guarded;
import io.taskyard.builtin.input.Refusal;
import io.taskyard.worker.TaskContext;
import io.taskyard.worker.TaskInput;
import io.taskyard.worker.TaskOutcome;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/**
 * The task type `index`: vectors of documents in a file that `search` reads, of whichever language.
 *
 * @param models those that this worker has
 */
public record Index(Models models) implements Guarded {
  private static final String MEDIA_TYPE = "application/jsonl";

  @Override
  public TaskOutcome run(TaskInput input, TaskContext context)
      throws Refusal, IOException, InterruptedException {
    Fields fields = Fields.of("index", input.values(), List.of("documents", "model"));
    JsonNode documents = documents(fields.get("documents"));
    VectorModel model = models.find(fields.get("model"));
    Path file = Files.createTempFile("taskyard-index-", ".jsonl");
    try {
      int count = write(documents, model, context, file);
      Map<String, Object> output =
          Map.of(
              "index", kept(file, context),
              "model", model.name(),
              "dimensions", model.dimensions(),
              "documents", count);
      return new TaskOutcome.Success(output, Map.of("model", model.name()));
    } finally {
      Files.deleteIfExists(file);
    }
  }

  private static String kept(Path file, TaskContext context)
      throws IOException, InterruptedException {
    try (InputStream in = Files.newInputStream(file)) {
      return context.artifacts().upload(in, "index.jsonl", MEDIA_TYPE);
    }
  }

  private static int write(JsonNode documents, VectorModel model, TaskContext context, Path file)
      throws Refusal, IOException, InterruptedException {
    try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(file))) {
      IndexWriting writing = new IndexWriting(model, out, context);
      if (documents.isArray()) {
        for (int number = 0; number < documents.size(); number++) {
          String place = "documents[%d]".formatted(number);
          writing.add(Document.read(documents.get(number), place, number));
        }
      } else {
        readLines(documents.textValue(), context, writing);
      }
      return writing.finish();
    }
  }

  private static void readLines(String uri, TaskContext context, IndexWriting writing)
      throws Refusal, IOException, InterruptedException {
    try (JsonLines lines = new JsonLines(context.artifacts().open(uri), "the documents")) {
      for (JsonNode line = lines.next(); line != null; line = lines.next()) {
        writing.add(Document.read(line, "line " + lines.number(), lines.number() - 1));
      }
    }
  }

  private static JsonNode documents(JsonNode given) throws Refusal {
    boolean list = given != null && given.isArray() && !given.isEmpty();
    if (!list && (given == null || !Fields.isArtifact(given))) {
      throw Refusal.invalid(
          "'documents' is %s; it must be a list of {\"id\": …, \"text\": …}, not empty, or the"
              + " artifact:// address of a file with one on each line",
          Fields.shown(given));
    }
    return given;
  }
}
