package io.taskyard.builtin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.taskyard.worker.TaskInput;
import io.taskyard.worker.TaskOutcome;
import io.taskyard.worker.TaskRegistry;
import java.util.Map;

/** Runs built-in tasks as a worker would. */
public final class Tasks {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final TaskRegistry registry = new TaskRegistry();

  /** The attempt of all of them. */
  public final TestContext context = new TestContext();

  /** Offers all, without an endpoint. */
  public Tasks() {
    this(Map.of());
  }

  /** Offers all, as an environment has it. */
  public Tasks(Map<String, String> environment) {
    new BuiltinModule(environment).addTo(registry);
  }

  /** Whether a type is offered. */
  public boolean offers(String type) {
    return registry.find(type).isPresent();
  }

  /** Runs a task. */
  public TaskOutcome run(String type, String input) throws Exception {
    ObjectNode values = (ObjectNode) JSON.readTree(input);
    return registry.find(type).orElseThrow().handler().handle(new TaskInput(values), context);
  }

  /** The output of a task that must succeed. */
  public JsonNode output(String type, String input) throws Exception {
    TaskOutcome outcome = run(type, input);
    TaskOutcome.Success success =
        assertInstanceOf(TaskOutcome.Success.class, outcome, outcome::toString);
    return JSON.valueToTree(success.output());
  }

  /** The message of a task that must be refused as of this kind. */
  public String refusal(String kind, String type, String input) throws Exception {
    TaskOutcome.Failure failure = assertInstanceOf(TaskOutcome.Failure.class, run(type, input));
    assertEquals(kind, failure.kind(), failure.message());
    return failure.message();
  }
}
