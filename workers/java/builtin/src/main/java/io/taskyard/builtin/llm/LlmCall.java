package io.taskyard.builtin.llm;

import dev.langchain4j.http.client.jdk.JdkHttpClient;
import dev.langchain4j.model.chat.request.ResponseFormat;
import dev.langchain4j.model.chat.request.ResponseFormatType;
import dev.langchain4j.model.chat.request.json.JsonRawSchema;
import dev.langchain4j.model.chat.request.json.JsonSchema;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import io.taskyard.builtin.input.Guarded;
import io.taskyard.worker.TaskContext;
import io.taskyard.worker.TaskInput;
import io.taskyard.worker.TaskOutcome;
import java.time.Duration;

/**
 * The task type `llm_call`: a prompt to a model, its answer streamed and returned.
 *
 * @param endpoint who is asked
 */
public record LlmCall(Endpoint endpoint) implements Guarded {
  private static final Duration LONGEST = Duration.ofDays(1);

  @Override
  public TaskOutcome run(TaskInput input, TaskContext context) throws Exception {
    Order order = Order.of(input.values(), endpoint.model());
    try (Connection connection = new Connection()) {
      context.onCancel(connection::close);
      return new Talk(endpoint, model(order, context, connection), order, context).outcome();
    }
  }

  private OpenAiStreamingChatModel model(Order order, TaskContext context, Connection connection) {
    var builder =
        OpenAiStreamingChatModel.builder()
            .httpClientBuilder(JdkHttpClient.builder().httpClientBuilder(connection))
            .timeout(context.timeout().orElse(LONGEST))
            .baseUrl(endpoint.address())
            .apiKey(endpoint.key())
            .modelName(order.model())
            .temperature(order.temperature())
            .maxTokens(order.maxTokens());
    if (order.schema() != null) {
      builder.responseFormat(format(order.schema())).strictJsonSchema(false);
    }
    return builder.build();
  }

  private static ResponseFormat format(AnswerSchema schema) {
    JsonSchema asked =
        JsonSchema.builder()
            .name("response")
            .rootElement(JsonRawSchema.from(schema.text()))
            .build();
    return ResponseFormat.builder().type(ResponseFormatType.JSON).jsonSchema(asked).build();
  }
}
