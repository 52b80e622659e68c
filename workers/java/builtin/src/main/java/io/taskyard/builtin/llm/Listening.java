package io.taskyard.builtin.llm;

import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import io.taskyard.builtin.input.Refusal;
import io.taskyard.worker.TaskContext;
import java.util.concurrent.CompletableFuture;

/** Hears an answer as it comes, and shows it to whoever watches. */
final class Listening implements StreamingChatResponseHandler {
  private static final int MOST_CHARACTERS = 4 * 1024 * 1024;

  /** The whole answer. */
  final CompletableFuture<ChatResponse> answer = new CompletableFuture<>();

  private final TaskContext context;
  private long characters;

  Listening(TaskContext context) {
    this.context = context;
  }

  @Override
  public void onPartialResponse(String text) {
    characters += text.length();
    if (characters > MOST_CHARACTERS) {
      answer.completeExceptionally(
          Refusal.nonRetryable(
              "the answer has more than %,d characters; set 'max_tokens'", MOST_CHARACTERS));
    } else {
      context.stream(text);
    }
  }

  @Override
  public void onCompleteResponse(ChatResponse response) {
    answer.complete(response);
  }

  @Override
  public void onError(Throwable error) {
    answer.completeExceptionally(error);
  }
}
