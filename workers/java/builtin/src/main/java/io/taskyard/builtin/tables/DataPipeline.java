package io.taskyard.builtin.tables;

import io.taskyard.builtin.input.Fields;
import io.taskyard.builtin.input.Guarded;
import io.taskyard.worker.Artifacts;
import io.taskyard.worker.TaskContext;
import io.taskyard.worker.TaskInput;
import io.taskyard.worker.TaskOutcome;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** The task type `data_pipeline`: reads a table, puts it through steps, writes one. */
public final class DataPipeline implements Guarded {

  @Override
  public TaskOutcome run(TaskInput input, TaskContext context) throws Exception {
    List<String> known = List.of(Source.URI, Source.FORMAT, "steps", "format");
    Fields fields = Fields.of("data_pipeline", input.values(), known);
    Source source = Source.of(fields);
    List<Step> steps = Steps.of(fields.get("steps"));
    TableFormat format = TableFormat.named(fields, "format");
    Path folder = Files.createTempDirectory("taskyard-tables-");
    try {
      Map<String, Path> files = fetched(source, steps, context.artifacts(), folder);
      Path target = folder.resolve("result");
      return stored(worked(source, steps, files, format, target), context.artifacts());
    } finally {
      remove(folder);
    }
  }

  private static Pipeline.Result worked(
      Source source, List<Step> steps, Map<String, Path> files, TableFormat format, Path target)
      throws Exception {
    try (Database database = new Database(target.getParent())) {
      Pipeline pipeline = new Pipeline(database);
      return Apart.call(() -> pipeline.run(source, steps, files, format, target), database::stop);
    }
  }

  /** Fetches each artifact once, however often it is named. */
  private static Map<String, Path> fetched(
      Source source, List<Step> steps, Artifacts artifacts, Path folder)
      throws IOException, InterruptedException {
    Map<String, Path> files = new HashMap<>();
    Stream<String> joined =
        steps.stream()
            .flatMap(
                each -> each instanceof Step.Join join ? Stream.of(join.source().uri()) : null);
    for (String uri : Stream.concat(Stream.of(source.uri()), joined).distinct().toList()) {
      Path file = folder.resolve("source-" + files.size());
      artifacts.download(uri, file);
      files.put(uri, file);
    }
    return files;
  }

  private static TaskOutcome stored(Pipeline.Result result, Artifacts artifacts)
      throws IOException, InterruptedException {
    Map<String, Object> output = new LinkedHashMap<>();
    TableFormat format = result.format();
    try (InputStream in = Files.newInputStream(result.file())) {
      output.put("artifact", artifacts.upload(in, "table." + format.suffix(), format.mediaType()));
    }
    output.put("rows", result.rows());
    output.put("columns", result.columns());
    return TaskOutcome.success(output);
  }

  private static void remove(Path folder) throws IOException {
    try (Stream<Path> all = Files.walk(folder)) {
      for (Path each : all.sorted(Comparator.reverseOrder()).toList()) {
        Files.deleteIfExists(each);
      }
    }
  }
}
