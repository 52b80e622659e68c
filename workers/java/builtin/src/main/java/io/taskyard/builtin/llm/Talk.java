package io.taskyard.builtin.llm;

import dev.langchain4j.data.message.AiMessage;
import dev.langchain4j.data.message.ChatMessage;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import dev.langchain4j.model.output.FinishReason;
import dev.langchain4j.model.output.TokenUsage;
import io.taskyard.builtin.input.Refusal;
import io.taskyard.worker.TaskContext;
import io.taskyard.worker.TaskOutcome;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutionException;

/** What is said with a model in one attempt, and what it costs. */
final class Talk {
  private final Endpoint endpoint;
  private final OpenAiStreamingChatModel model;
  private final Order order;
  private final TaskContext context;
  private TokenUsage usage;

  Talk(Endpoint endpoint, OpenAiStreamingChatModel model, Order order, TaskContext context) {
    this.endpoint = endpoint;
    this.model = model;
    this.order = order;
    this.context = context;
  }

  /** Asks, and once more when the answer does not follow the schema. */
  TaskOutcome outcome() throws Exception {
    ChatResponse answer = ask(order.messages());
    if (order.schema() == null) {
      return success(answer, textOf(answer));
    }
    try {
      return success(answer, order.schema().read(textOf(answer)));
    } catch (AnswerSchema.Misfit misfit) {
      return askAgain(textOf(answer), misfit);
    }
  }

  private TaskOutcome askAgain(String said, AnswerSchema.Misfit misfit) throws Exception {
    context.log(
        "the answer does not follow the schema (%s); asking once more"
            .formatted(misfit.getMessage()));
    context.stream("\n");
    List<ChatMessage> messages = new ArrayList<>(order.messages());
    messages.add(AiMessage.from(said));
    messages.add(
        UserMessage.from(
            "Your answer does not follow the schema: %s. Answer again, with the corrected JSON and"
                    .formatted(misfit.getMessage())
                + " nothing else."));
    ChatResponse again = ask(messages);
    try {
      return success(again, order.schema().read(textOf(again)));
    } catch (AnswerSchema.Misfit error) {
      throw new IOException(
          "the answer does not follow 'response_schema', also when asked again: "
              + error.getMessage(),
          error);
    }
  }

  private ChatResponse ask(List<ChatMessage> messages) throws Exception {
    Listening listening = new Listening(context);
    model.chat(messages, listening);
    ChatResponse answer;
    try {
      answer = listening.answer.get();
    } catch (ExecutionException error) {
      if (context
          .isCancelled()) { // the cancel closed the connection, and came before the interrupt
        throw new InterruptedException();
      }
      throw Failures.of(error.getCause(), endpoint);
    }
    if (answer.finishReason() == null) {
      throw new IOException("the endpoint ended the stream before the answer had ended");
    }
    if (order.schema() != null && answer.finishReason() == FinishReason.LENGTH) {
      throw Refusal.nonRetryable(
          "the answer reached 'max_tokens' before its JSON was complete; allow more of them");
    }
    usage = TokenUsage.sum(usage, answer.tokenUsage());
    return answer;
  }

  private TaskOutcome success(ChatResponse answer, Object response) {
    String by = answer.modelName() == null ? order.model() : answer.modelName();
    Map<String, Object> output = new LinkedHashMap<>();
    output.put("response", response);
    output.put("tokens", usage == null ? null : usage.totalTokenCount());
    output.put("model", by);
    output.put("finish_reason", named(answer.finishReason()));
    return new TaskOutcome.Success(output, metadata(by));
  }

  private Map<String, String> metadata(String by) {
    Map<String, String> metadata = new LinkedHashMap<>(Map.of("model", by));
    if (usage != null) {
      count(metadata, "prompt_tokens", usage.inputTokenCount());
      count(metadata, "completion_tokens", usage.outputTokenCount());
      count(metadata, "total_tokens", usage.totalTokenCount());
    }
    return metadata;
  }

  private static void count(Map<String, String> metadata, String name, Integer count) {
    if (count != null) {
      metadata.put(name, count.toString());
    }
  }

  private static String named(FinishReason reason) {
    return reason == FinishReason.TOOL_EXECUTION
        ? "tool_calls"
        : reason.name().toLowerCase(Locale.ROOT);
  }

  private static String textOf(ChatResponse answer) {
    String text = answer.aiMessage().text();
    return text == null ? "" : text;
  }
}
