package io.taskyard.worker.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.taskyard.v1.RegisterRequest;
import io.taskyard.worker.TaskOutcome;
import io.taskyard.worker.TaskRegistry;
import io.taskyard.worker.settings.SettingsException;
import io.taskyard.worker.settings.WorkerSettings;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class IdentityTest {
  private static RegisterRequest registers(String labels, TaskRegistry registry) {
    WorkerSettings settings = WorkerSettings.load(Map.of("TASKYARD_LABELS", labels));
    return Identity.of(settings, "java-worker-1", 8081, registry).request();
  }

  @Test
  void labelsOfModulesAreRegistered() {
    RegisterRequest request =
        registers("zone=b", new TaskRegistry().label("model", "all-minilm-l6-v2"));
    assertEquals(
        Map.of("lang", "java", "zone", "b", "model", "all-minilm-l6-v2"), request.getLabelsMap());
  }

  @Test
  void labelsOfTheSettingsWin() {
    RegisterRequest request =
        registers("model=none,lang=kotlin", new TaskRegistry().label("model", "all-minilm-l6-v2"));
    assertEquals(Map.of("lang", "kotlin", "model", "none"), request.getLabelsMap());
  }

  @Test
  void labelsAreCountedTogether() {
    TaskRegistry registry = new TaskRegistry().label("model", "m").label("gpu", "none");
    String many =
        IntStream.range(0, 62).mapToObj(each -> "l" + each + "=x").collect(Collectors.joining(","));
    SettingsException error =
        assertThrows(SettingsException.class, () -> registers(many, registry));
    assertTrue(error.getMessage().contains("65 labels together (the handlers: [model, gpu])"));
  }

  @Test
  void oneLabelHasOneValue() {
    TaskRegistry registry = new TaskRegistry().label("model", "m").label("model", "m");
    assertThrows(IllegalArgumentException.class, () -> registry.label("model", "n"));
  }

  @Test
  void typesAndPortAreRegistered() {
    TaskRegistry registry =
        new TaskRegistry().add("greet", (input, context) -> TaskOutcome.success("hello"));
    RegisterRequest request = registers("", registry);
    assertEquals(List.of("greet"), request.getCapabilitiesList());
    assertEquals(8081, request.getPort());
  }
}
