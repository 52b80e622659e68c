package io.taskyard.builtin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.taskyard.worker.TaskRegistry;
import java.util.Map;
import org.junit.jupiter.api.Test;

class BuiltinModuleTest {
  private static TaskRegistry registry(Map<String, String> environment) {
    TaskRegistry registry = new TaskRegistry();
    new BuiltinModule(environment).addTo(registry);
    return registry;
  }

  @Test
  void theModelIsALabel() {
    assertEquals(Map.of("model", "all-minilm-l6-v2"), registry(Map.of()).labels());
  }

  @Test
  void llmCallIsOfferedWithAnEndpoint() {
    assertFalse(registry(Map.of()).entries().containsKey("llm_call"));
    Map<String, String> endpoint = Map.of("TASKYARD_LLM_BASE_URL", "http://127.0.0.1:1/v1");
    assertTrue(registry(endpoint).entries().containsKey("llm_call"));
  }
}
