package io.taskyard.builtin;

import io.taskyard.builtin.input.Guarded;
import io.taskyard.builtin.llm.Endpoint;
import io.taskyard.builtin.llm.LlmCall;
import io.taskyard.builtin.tables.DataPipeline;
import io.taskyard.builtin.vectors.Embedding;
import io.taskyard.builtin.vectors.Graphs;
import io.taskyard.builtin.vectors.Index;
import io.taskyard.builtin.vectors.Models;
import io.taskyard.builtin.vectors.Search;
import io.taskyard.worker.TaskModule;
import io.taskyard.worker.TaskRegistry;
import java.util.Map;

/** Brings the built-in task types to a worker that has this jar on its class path. */
public final class BuiltinModule implements TaskModule {
  private final Map<String, String> environment;

  /** As the environment of the process configures them. */
  public BuiltinModule() {
    this(System.getenv());
  }

  BuiltinModule(Map<String, String> environment) {
    this.environment = environment;
  }

  @Override
  public void addTo(TaskRegistry registry) {
    Models models =
        new Models(environment.getOrDefault("TASKYARD_EMBEDDING_MODEL", Models.IN_PROCESS));
    registry.label("model", Models.IN_PROCESS);
    registry.add("text_process", new TextProcess());
    registry.add("sleep", Guarded.handler(new Sleep()));
    registry.add("embedding", Guarded.handler(new Embedding(models)));
    registry.add("index", Guarded.handler(new Index(models)));
    registry.add("search", Guarded.handler(new Search(models, new Graphs())));
    registry.add("data_pipeline", Guarded.handler(new DataPipeline()));
    Endpoint.of(environment)
        .ifPresent(each -> registry.add("llm_call", Guarded.handler(new LlmCall(each))));
  }
}
