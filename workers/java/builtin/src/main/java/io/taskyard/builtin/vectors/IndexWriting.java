package io.taskyard.builtin.vectors;

import io.taskyard.builtin.input.Refusal;
import io.taskyard.worker.TaskContext;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The making of one index: documents come one by one, and are embedded and written in batches. */
final class IndexWriting {
  private static final int BATCH_DOCUMENTS = 128;
  private static final int BATCH_CHARACTERS = 256 * 1024;

  private final VectorModel model;
  private final OutputStream out;
  private final TaskContext context;
  private final List<Document> batch = new ArrayList<>();
  private int characters;
  private int count;

  IndexWriting(VectorModel model, OutputStream out, TaskContext context) {
    this.model = model;
    this.out = out;
    this.context = context;
  }

  /** Takes a document. */
  void add(Document document) throws IOException, InterruptedException {
    batch.add(document);
    characters += document.text().length();
    if (batch.size() >= BATCH_DOCUMENTS || characters >= BATCH_CHARACTERS) {
      write();
    }
  }

  /**
   * Writes what is left.
   *
   * @return how many documents there are
   * @throws Refusal there is none
   */
  int finish() throws Refusal, IOException, InterruptedException {
    if (!batch.isEmpty()) {
      write();
    }
    if (count == 0) {
      throw Refusal.nonRetryable("'documents' has none: there is nothing to index");
    }
    return count;
  }

  private void write() throws IOException, InterruptedException {
    List<double[]> vectors = model.embed(batch.stream().map(Document::text).toList());
    if (count == 0) {
      Map<String, Object> header = new LinkedHashMap<>();
      header.put("model", model.name());
      header.put("dimensions", model.dimensions());
      line(header);
    }
    for (int at = 0; at < batch.size(); at++) {
      line(entry(batch.get(at), vectors.get(at)));
    }
    count += batch.size();
    context.progress(0, "%,d documents".formatted(count));
    batch.clear();
    characters = 0;
  }

  private static Map<String, Object> entry(Document document, double[] vector) {
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("id", document.id());
    entry.put("text", document.text());
    entry.put("vector", vector);
    return entry;
  }

  private void line(Map<String, Object> value) throws IOException {
    out.write(JsonLines.JSON.writeValueAsString(value).getBytes(StandardCharsets.UTF_8));
    out.write('\n');
  }
}
